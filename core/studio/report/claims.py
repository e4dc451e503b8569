"""Paired tests of whether rows are better than others on the same images, corrected for multiple testing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.engine.metrics.compare import delong, holm, paired_bootstrap
from core.studio.db.store import Store
from core.studio.report.cells import Cell, dice_of, patients_in, scores_of
from core.studio.report.tables import Table


@dataclass
class Claim:
    """A claim that one row is better than another, and its test.

    difference: mean of `metric` over seeds, `better` minus `than`. p: p value of the paired test. corrected: p after
    Holm's correction.
    """

    table: str
    better: str
    than: str
    metric: str
    difference: float
    p: float
    corrected: float = 1.0

    @property
    def holds(self) -> bool:
        return self.difference > 0 and self.corrected < 0.05


def judged_claims(
    store: Store, tables: list[Table], cells: dict[str, list[Cell]], roi: bool, protocol: str
) -> list[Claim]:
    """Tests all claims whose rows have results: DeLong's test for AUROC, a paired bootstrap for Dice.

    The units of both tests are patients if they are known, else images. The claims of all tables are corrected
    together. cells: the cells of each table by the table's name.
    """
    claims: list[Claim] = []
    scores: dict[str, np.ndarray] = {}
    dice: dict[str, np.ndarray] = {}
    labels = np.zeros(0, int)

    def score(cell: Cell) -> np.ndarray:
        nonlocal labels
        if cell.fit not in scores:
            scores[cell.fit], labels = scores_of(store, cell, roi)
        return scores[cell.fit]

    def overlap(cell: Cell) -> np.ndarray:
        if cell.fit not in dice:
            dice[cell.fit] = dice_of(store, cell, roi, protocol)
        return dice[cell.fit]

    for table in tables:
        by_label = {c.label: [x for x in cells[table.name] if x.label == c.label and not x.error] for c in table.arms}
        for better, than in table.claims:
            first, two = by_label[better], by_label[than]
            if not first or not two:
                continue
            if "auroc" in table.metrics:
                ours, theirs = (np.stack([score(c) for c in cells]) for cells in (first, two))
                patients = patients_in(store, first[0])
                claims.append(Claim(table.name, better, than, "auroc", *delong(ours, theirs, labels, patients)))
            if "dice" in table.metrics and len(overlap(first[0])):
                ours, theirs = (np.mean([overlap(c) for c in cells], 0) for cells in (first, two))
                finite = np.isfinite(ours) & np.isfinite(theirs)
                patients = patients_in(store, first[0], masked=True)
                patients = None if patients is None else patients[finite]
                claims.append(
                    Claim(table.name, better, than, "dice", *paired_bootstrap(ours[finite], theirs[finite], patients))
                )
    for claim, corrected in zip(claims, holm([c.p for c in claims]), strict=True):
        claim.corrected = corrected
    return claims
