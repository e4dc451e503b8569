"""Findings: what a mask shows, from a list of labels that each study keeps, with a free comment."""

from __future__ import annotations

from core.studio.db import audit
from core.studio.db.store import Store, now
from core.studio.review.decisions import case_row

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


def add(store: Store, case_id: int, label: str, reader: str, comment: str = "", mask_version: int | None = None) -> int:
    """Record a finding on a case; returns its id."""
    case = case_row(store, case_id)
    if not label.strip():
        raise ValueError("a finding needs a label")
    row = {
        "case_id": case_id,
        "mask_version": mask_version,
        "label": label.strip()[:60],
        "comment": comment[:4000],
        "reader": reader,
        "created": now(),
    }
    with store.write() as db:
        added = (
            db.execute(
                f"INSERT INTO findings ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values())
            ).lastrowid
            or 0
        )
        audit.record(store, reader, "finding", study=case["study"], case_id=case_id, after={"finding": added, **row})
    return added
