"""What a bundle holds of the database: tables, the rows of one study, columns, and what each column may hold.

Kinds of values: `id` the row's own number; `case`, `review`, `run`, `map` refer to another row; `reader` a reader's
name; `file` a name inside the bundle; `name`, `text`, `time`, `json`, `int`, `real`, `blob` as they say. A `?` allows
NULL. Columns that are not named here stay at home: the folders of this machine, jobs, password hashes.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.studio.db import audit

SETTINGS = ("labels", "blind", "import")  # of a study; its key for de-identified names never leaves the home

_CASES = "SELECT id FROM cases WHERE study = :study"
_RUNS = "SELECT id FROM runs WHERE study = :study AND binned IS NULL"


@dataclass(frozen=True)
class Table:
    """`where`: SQL for the rows of :study. `columns`: name -> kind."""

    where: str
    columns: dict[str, str]


TABLES = {  # in the order in which foreign keys allow them to be written
    "studies": Table(
        "id = :study",
        {"name": "name", "created": "time", "layout": "text?", "config": "json", "fingerprint": "text?"},
    ),
    "cases": Table(
        "study = :study",
        {
            "id": "id", "name": "name", "path": "file", "frame": "int", "split": "text", "label": "text",
            "width": "int?", "height": "int?", "bits": "int?", "modality": "text?", "sha256": "text?",
            "phash": "text?", "row": "int", "added": "time", "tags": "json", "burned_in": "int?", "series": "text?",
            "place": "real?", "slice": "int?", "patient": "text?", "scale": "json?",
        },
    ),
    "runs": Table(
        "study = :study",
        {
            "id": "id", "kind": "text", "name": "name", "parent": "run?", "method": "text", "config": "json",
            "status": "text", "created": "time", "finished": "time?", "seconds": "real?", "code": "text?",
            "packages": "json?", "device": "text?", "note": "text", "archived": "int", "summary": "json",
        },
    ),
    "lesion_masks": Table(
        f"case_id IN ({_CASES})",
        {
            "id": "id", "case_id": "case", "version": "int", "source": "text", "reader": "reader?",
            "created": "time", "run": "run?", "threshold": "real?", "png": "blob", "note": "text",
        },
    ),
    "metrics": Table(f"run IN ({_RUNS})", {"run": "run", "step": "int", "name": "text", "value": "real?"}),
    "logs": Table(f"run IN ({_RUNS})", {"id": "id", "run": "run", "at": "time", "line": "text"}),
    "readings": Table(
        f"run IN ({_RUNS}) AND case_id IN ({_CASES})",
        {
            "run": "run", "case_id": "case", "score": "real?", "score_roi": "real?", "percentile": "real?",
            "percentile_roi": "real?", "flagged": "int?", "flagged_roi": "int?", "map": "blob?", "map_h": "int?",
            "map_w": "int?", "map_lo": "real?", "map_hi": "real?", "extra": "json", "created": "time",
        },
    ),
    "evaluations": Table("study = :study", {"id": "id", "run": "run?", "created": "time", "row": "json"}),
    "reviews": Table(
        f"case_id IN ({_CASES})",
        {
            "id": "id", "case_id": "case", "reader": "reader", "decision": "text", "comment": "text",
            "created": "time", "seconds": "real?", "run": "run?", "shown": "json", "stage": "text", "active": "int",
        },
    ),
    "assignments": Table(
        f"case_id IN ({_CASES})", {"case_id": "case", "reader": "reader", "by": "reader", "created": "time"}
    ),
    "findings": Table(
        f"case_id IN ({_CASES})",
        {
            "id": "id", "case_id": "case", "mask_version": "int?", "label": "text", "comment": "text",
            "box": "json?", "reader": "reader", "created": "time",
        },
    ),
    "undone": Table("study = :study", {"review_id": "review", "reader": "reader"}),
    "settings": Table(
        "key IN (" + ", ".join(f"'{name}:' || :study" for name in SETTINGS) + ")", {"key": "text", "value": "json"}
    ),
    "cluster_maps": Table(
        f"study = :study AND run IN ({_RUNS})",
        {
            "key": "map", "run": "run", "config": "json", "created": "time", "points": "int?", "epochs": "json?",
            "seconds": "real?",
        },
    ),
    "cluster_views": Table(
        "study = :study", {"name": "name", "reader": "reader", "created": "time", "state": "json"}
    ),
}  # fmt: skip
WITH_STUDY = ("cases", "runs", "evaluations", "undone", "cluster_maps", "cluster_views")  # have a column `study`
EVENTS = (*audit.SEALED, "hash")
