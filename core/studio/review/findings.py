"""Findings: what is seen on a case, in a mask, a box or at a point; from a list of labels that each study keeps."""

from __future__ import annotations

import json
import time

from core.studio.db import audit
from core.studio.db.store import NotFound, Store, now
from core.studio.review.context import RequestContext

LABELS = ("polyp", "lesion", "artefact")
LABELS_BY_KIND = {  # kind of image (core/studio/ingest/kind.py): labels that fit it
    "endoscopy": ("polyp", "ulcer", "inflammation", "bleeding", "artefact"),
    "fundus": ("microaneurysm", "haemorrhage", "hard exudate", "soft exudate", "new vessels", "artefact"),
    "xray": ("opacity", "nodule", "effusion", "pneumothorax", "device", "artefact"),
    "ultrasound": ("mass", "cyst", "calcification", "haemorrhage", "artefact"),
    "other": ("lesion", "artefact"),
}


def labels(store: Store, study: str) -> list[str]:
    """The study's labels."""
    return store.setting(f"labels:{study}", list(LABELS))


def fit_labels(store: Store, study: str, kind: str, by: str) -> list[str]:
    """Labels that fit the kind of image, unless the study has labels of its own or findings; the labels it then has."""
    own = store.setting(f"labels:{study}") is not None and not _by_kind(labels(store, study))
    used = "SELECT 1 FROM findings f JOIN cases c ON c.id = f.case_id WHERE c.study = ? LIMIT 1"
    if own or store.one(used, [study]) is not None:
        return labels(store, study)
    return set_labels(store, study, list(LABELS_BY_KIND.get(kind, LABELS)), by)


def _by_kind(names: list[str]) -> bool:
    return tuple(names) in LABELS_BY_KIND.values()


def set_labels(store: Store, study: str, names: list[str], by: str) -> list[str]:
    """Replace the list; findings that use an older label keep it."""
    clean = list(dict.fromkeys(n.strip()[:60] for n in names if n.strip()))
    if not clean:
        raise ValueError("a study keeps at least one label for findings")
    with store.write():
        before = labels(store, study)
        store.set_setting(f"labels:{study}", clean)
        audit.record(store, by, "labels", study=study, before=before, after=clean)
    return clean


def add(
    context: RequestContext,
    label: str,
    comment: str = "",
    mask_version: int | None = None,
    box: tuple[float, float, float, float] | None = None,
) -> int:
    """Record a finding on the context's case; returns its id. box: x0, y0, x1, y1 in pixels; a point has both corners
    alike.

    Raises ValueError if the box does not lie in the image.
    """
    store, reader, case = context.store, context.reader, context.asked_case
    if box is not None:
        x0, y0, x1, y1 = box
        if not (0 <= x0 <= x1 <= case["width"] and 0 <= y0 <= y1 <= case["height"]):
            raise ValueError("This place does not lie in the image.")
    if not label.strip():
        raise ValueError("a finding needs a label")
    row = {
        "case_id": case["id"],
        "mask_version": mask_version,
        "label": label.strip()[:60],
        "comment": comment[:4000],
        "box": None if box is None else json.dumps([round(v, 2) for v in box]),
        "reader": reader,
        "created": now(),
    }
    with store.write() as db:
        # Numbered by the clock, in microseconds: one that follows the last would tell how many there are.
        last = store.first("SELECT coalesce(max(id), 0) AS id FROM findings")["id"]
        number = max(time.time_ns() // 1000, last + 1)
        row = {"id": number, **row}
        db.execute(f"INSERT INTO findings ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
        after = {"finding": number, **row}
        audit.record(store, reader, "finding", study=context.study, case_id=case["id"], after=after)
    return number


def of_case(context: RequestContext, case_id: int) -> list[dict]:
    """[{"id", "label", "comment", "reader", "created", "mask_version", "box"}] of a case, the first one first.

    Whoever reads blind gets only their own: other readers' words are withheld.
    """
    rows = context.store.query(
        "SELECT id, label, comment, reader, created, mask_version, box FROM findings WHERE case_id = ? ORDER BY id",
        [case_id],
    )
    shown = [row for row in rows if not context.blinded or row["reader"] == context.reader]
    return [{**row, "box": row["box"] and json.loads(row["box"])} for row in shown]


def case_of(store: Store, finding: int, reader: str) -> int:
    """The case of a reader's own finding. Raises NotFound if it is another's, or none."""
    row = store.one("SELECT case_id FROM findings WHERE id = ? AND reader = ?", [finding, reader])
    if row is None:
        raise NotFound("You have no such finding.")
    return int(row["case_id"])


def remove(context: RequestContext, finding: int) -> None:
    """Take back a finding of one's own on the context's case; recorded. Raises NotFound if it is another's, or none."""
    store, reader, case = context.store, context.reader, context.asked_case["id"]
    with store.write() as db:
        row = store.one("SELECT * FROM findings WHERE id = ? AND case_id = ?", [finding, case])
        if row is None or row["reader"] != reader:
            raise NotFound("You have no such finding.")
        db.execute("DELETE FROM findings WHERE id = ?", [finding])
        before = {"finding": finding, "label": row["label"]}
        audit.record(store, reader, "finding-removed", study=context.study, case_id=case, before=before)
