"""Which rows are better than which: paired tests on the same images, corrected for the number of claims."""

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

    difference: mean of `metric` over seeds, of `better` less that of `than`. p: of the paired test; corrected: by
    Holm's rule.
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
    """Judges every claim of the tables whose rows are there: DeLong's test for AUROC, a bootstrap for Dice.

    Both are of patients where these are known, else of images.

    cells: by the table's name. All claims of all tables are corrected together.
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
                whose = patients_in(store, first[0])
                claims.append(Claim(table.name, better, than, "auroc", *delong(ours, theirs, labels, whose)))
            if "dice" in table.metrics and len(overlap(first[0])):
                ours, theirs = (np.mean([overlap(c) for c in cells], 0) for cells in (first, two))
                known = np.isfinite(ours) & np.isfinite(theirs)
                whose = patients_in(store, first[0], masked=True)
                whose = None if whose is None else whose[known]
                claims.append(
                    Claim(table.name, better, than, "dice", *paired_bootstrap(ours[known], theirs[known], whose))
                )
    for claim, corrected in zip(claims, holm([c.p for c in claims]), strict=True):
        claim.corrected = corrected
    return claims
