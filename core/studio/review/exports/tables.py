"""Decisions as CSV, one line for each review that counts."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.ingest import burned_in, volumes
from core.studio.review.exports.names import Names

COLUMNS = (
    "case", "split", "reader", "stage", "decision", "comment", "created", "seconds", "run", "score", "percentile",
    "flagged", "label", "has_mask", "recording", "frame", "burned_in_text", "tags",
    "steady", "views_flagged", "score_sd", "lesion_head", "padim",
)  # fmt: skip


def export_csv(
    store: Store, study: str, target: Path, by: str, keep_names: bool = False, run: str | None = None
) -> dict:
    """Write `target`; score, percentile and flag are those of `run`, or of the run the reader saw.

    {"rows", "file", "burned_in"}. A frame of a recording counts from 1; a slice of a volume has its
    instance number.
    """
    names = Names(store, study, keep_names)
    rows = store.query(
        "SELECT v.*, c.id AS case_number, c.name, c.path, c.sha256, c.series, c.split, c.label, c.tags, "
        "coalesce(r.score_roi, r.score) AS score, "
        "coalesce(r.percentile_roi, r.percentile) AS percentile, coalesce(r.flagged_roi, r.flagged) AS flagged, "
        "r.extra, EXISTS (SELECT 1 FROM lesion_masks m WHERE m.case_id = c.id) AS has_mask FROM current_reviews k "
        "JOIN reviews v ON v.id = k.review_id JOIN cases c ON c.id = v.case_id "
        "LEFT JOIN readings r ON r.case_id = c.id AND r.run = coalesce(?, v.run) WHERE c.study = ? ORDER BY v.id",
        [run, study],
    )
    text = burned_in.among(store, study, [r["case_number"] for r in rows])
    marked, several = set(text["cases"]), volumes.parts(store, study)
    with Path(target).open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(COLUMNS)
        for row in rows:
            row |= {
                "case": names.case({"id": row["case_number"], "name": row["name"]}),
                "reader": names.reader(row["reader"]),
                "created": names.when(row["created"]),
                "recording": names.recording(row) if row["case_number"] in several else "",
                "frame": several.get(row["case_number"]),
                "burned_in_text": int(row["case_number"] in marked),
                "tags": "; ".join(json.loads(row["tags"])),
                **_certainty(row["extra"]),
            }
            out.writerow([cell(row[c]) for c in COLUMNS])
    details = {"format": "csv", "rows": len(rows), "named": keep_names, "burned_in": len(marked)}
    audit.record(store, by, "export", study=study, after=details)
    return {"rows": len(rows), "file": str(target), "burned_in": text}


def _certainty(extra: str | None) -> dict:
    """How steady the reading is, and what a combined detector's parts say; empty where it is not known."""
    kept = json.loads(extra or "{}")
    steady = kept.get("steady")
    views = sum(steady["flagged"]) if steady else None
    return {
        "steady": "" if steady is None else "yes" if views in (0, len(steady["flagged"])) else "no",
        "views_flagged": "" if steady is None else f"{views} of {len(steady['flagged'])}",
        "score_sd": "" if steady is None else steady["sd"],
        "lesion_head": kept.get("head", ""),
        "padim": kept.get("padim", ""),
    }


def cell(value):
    """A cell of a CSV that no spreadsheet takes for a formula, which some find behind spaces and line breaks, too."""
    if not isinstance(value, str) or not value:
        return value
    first = value.lstrip().lstrip("\ufeff\u200b\x00")[:1]
    return f"'{value}" if value[0] in "\t\r\n" or (first and first in "=+-@\uff1d\uff0b\uff0d\uff20") else value
