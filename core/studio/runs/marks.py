"""What readers marked and a detector can learn from: their accepted lesion masks, and the cases that it then has seen.

Accepted is a mask that a reader saved, by hand or from a heat map, on a test case that the same reader's last decision
calls abnormal. Drafts and imported masks are not: nobody here has said that they are right.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from core.engine.rows import rows_of
from core.studio.db.store import Store
from core.studio.ingest.masks import decode_mask
from core.studio.ingest.resize import mask_at
from core.studio.ingest.studies import load_arrays
from core.studio.runs import records as runs

if TYPE_CHECKING:
    from core.engine.detectors.base import Marks

# alike for images of one patient, volume or recording
_UNIT = "coalesce('patient ' || c.patient, 'series ' || c.series, 'file ' || c.path) AS unit"
# of each case the last accepted mask; a reader's last decision is the second look where there is one
_ACCEPTED = f"""
  SELECT m.id AS mask, m.case_id, m.reader, m.png, {_UNIT}
  FROM lesion_masks m JOIN cases c ON c.id = m.case_id
  WHERE c.study = :study AND c.split = 'test' AND m.source IN ('hand', 'run') AND m.reader IS NOT NULL
    AND (:reader IS NULL OR m.reader = :reader)
    AND (SELECT k.decision FROM current_reviews k WHERE k.case_id = c.id AND k.reader = m.reader
         AND k.stage != 'adjudication' ORDER BY k.stage DESC LIMIT 1) = 'abnormal'
    AND NOT EXISTS (SELECT 1 FROM current_reviews k WHERE k.case_id = c.id AND k.stage = 'adjudication'
                    AND k.decision != 'abnormal')
  ORDER BY m.id"""


def accepted(store: Store, study: str, reader: str | None = None) -> list[dict[str, Any]]:
    """[{"mask", "case_id", "reader", "png", "unit"}] of each case the last accepted mask, if anything is marked in it.

    reader: of this one alone. unit: alike for images of one patient, volume or recording.
    """
    last = {row["case_id"]: row for row in store.query(_ACCEPTED, {"study": study, "reader": reader})}
    return [row for _, row in sorted(last.items()) if decode_mask(row["png"]).any()]


def chosen(found: list[dict[str, Any]], reader: str | None) -> dict[str, Any]:
    """What a run keeps of `accepted`: {"masks", "cases", "reader", "sha256"}, the last a fingerprint of the masks."""
    masks, cases = ([row[name] for row in found] for name in ("mask", "case_id"))
    return {"masks": masks, "cases": cases, "reader": reader, "sha256": _fingerprint(found)}


def units(found: list[dict[str, Any]]) -> np.ndarray:
    """(M,) numbers, alike for masks of one unit."""
    return np.asarray(np.unique([row["unit"] for row in found], return_inverse=True)[1])


def marks_of(store: Store, run: dict, size: int) -> Marks | None:
    """The marks that a run learns from at side `size`; None for a run that learns from none.

    Raises ValueError if masks that it names have gone or are not what they were.
    """
    from core.engine.detectors.base import Marks  # torch, which the page's process does not load

    kept = run["config"].get("marks")
    if not kept:
        return None
    wanted = ", ".join("?" * len(kept["masks"]))
    found = store.query(
        f"SELECT m.id AS mask, m.case_id, m.png, {_UNIT} FROM lesion_masks m JOIN cases c ON c.id = m.case_id "
        f"WHERE m.id IN ({wanted}) ORDER BY m.case_id",
        kept["masks"],
    )
    if _fingerprint(found) != kept["sha256"]:
        raise ValueError(f"the masks that {run['id']} was to learn from are not all there any more: learn anew")
    arrays = load_arrays(store, run["study"], size)
    row_of = {int(case): row for row, case in enumerate(arrays.case_ids)}
    rows = np.array([row_of[row["case_id"]] for row in found], np.int64)
    masks = np.stack([mask_at(decode_mask(row["png"]), size) for row in found])
    images, roi = (np.array(rows_of(values, rows)) for values in (arrays.images, arrays.roi))
    return Marks(images, masks, roi, units(found))


def learnt_from(store: Store, run_id: str) -> frozenset[int]:
    """Cases that a run has learnt from, and what is of the same patient, volume, recording or content as one of them.

    What such a run says of them is no evidence of how well it reads.
    """
    run = runs.get_run(store, run_id)
    kept = run["config"].get("marks")
    if not kept:
        return frozenset()
    cases = ", ".join("?" * len(kept["cases"]))
    rows = store.query(
        f"WITH seen AS (SELECT * FROM cases WHERE id IN ({cases})) SELECT c.id FROM cases c WHERE c.study = ? AND ("
        "c.id IN (SELECT id FROM seen) OR c.path IN (SELECT path FROM seen) "
        "OR c.patient IN (SELECT patient FROM seen) OR c.series IN (SELECT series FROM seen) "
        "OR c.sha256 IN (SELECT sha256 FROM seen))",
        [*kept["cases"], run["study"]],
    )
    return frozenset(row["id"] for row in rows)


def unseen(store: Store, run_id: str, case_ids: np.ndarray) -> np.ndarray:
    """bool (N,): which of the cases a run has not learnt from."""
    return ~np.isin(case_ids, list(learnt_from(store, run_id)))


def _fingerprint(found: list[dict[str, Any]]) -> str:
    digest = hashlib.sha256()
    for row in sorted(found, key=lambda r: r["case_id"]):
        digest.update(f"{row['case_id']} {hashlib.sha256(row['png']).hexdigest()}\n".encode())
    return digest.hexdigest()
