"""A run's scores of a study's test cases as arrays. They come from the database's indexes alone: of 100,000 cases the
rows themselves, with their heat maps, would take seconds to pass by.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from core.studio.db.store import Store
from core.studio.runs.marks import learnt_from


@dataclass(frozen=True)
class Scored:
    """N cases, highest score first: ids int64, scores float64, flagged bool, label '<U8', split '<U7'."""

    ids: np.ndarray
    scores: np.ndarray
    flagged: np.ndarray
    label: np.ndarray
    split: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, keep: np.ndarray) -> Scored:
        """Those cases of which keep (N,) is True, or those at the places `keep`."""
        return Scored(*(getattr(self, name)[keep] for name in ("ids", "scores", "flagged", "label", "split")))

    @property
    def test(self) -> Scored:
        return self.where(self.split == "test")

    @property
    def sick(self) -> np.ndarray:
        """bool (N,): called abnormal by the study's labels."""
        return np.asarray(self.label == "abnormal")


def scored(store: Store, study: str, run: str, roi: bool = True) -> Scored:
    """Held-out and test cases of the study that the run has scored, without those it has learnt from."""
    end = "_roi" if roi else ""
    ids, scores = map(
        np.array,
        store.columns(
            f"SELECT case_id, score{end} FROM readings WHERE run = ? AND score{end} IS NOT NULL "
            f"ORDER BY score{end} DESC, case_id",
            [run],
        ),
    )
    (flagged,) = store.columns(f"SELECT case_id FROM readings WHERE run = ? AND flagged{end} = 1", [run])
    case, label, split = map(
        np.array, store.columns("SELECT id, label, split FROM cases WHERE study = ? AND split != 'train'", [study])
    )
    keep = np.isin(ids, case) & ~np.isin(ids, list(learnt_from(store, run)))
    ids, scores = ids[keep].astype(np.int64), scores[keep].astype(np.float64)
    order = np.argsort(case)
    place = order[np.searchsorted(case, ids, sorter=order)]
    return Scored(ids, scores, np.isin(ids, flagged), label[place].astype("U8"), split[place].astype("U7"))


def named(store: Store, run: str, cases: Scored, roi: bool = True) -> list[dict]:
    """Rows of a few cases in their order: id, name, label, score, percentile, flagged."""
    end = "_roi" if roi else ""
    return store.query(
        f"SELECT c.id, c.name, c.label, r.score{end} AS score, r.percentile{end} AS percentile, "
        f"r.flagged{end} AS flagged FROM json_each(?) d CROSS JOIN cases c ON c.id = d.value "
        "JOIN readings r ON r.case_id = c.id WHERE r.run = ? ORDER BY d.key",
        [json.dumps(cases.ids.tolist()), run],
    )
