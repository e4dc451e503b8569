"""Summarises cells as the rows of the report's tables, and tests claims that one row is better than another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from core.engine.metrics.compare import delong, holm, paired_bootstrap
from core.studio.db.store import Store
from core.studio.report.cells import Cell, dice_of, patients_in, scores_of
from core.studio.report.published import DERIVED, STARRED, published, spread
from core.studio.report.tables import Table, is_starred

HEADS = {
    "auroc": "AUROC", "specificity": "Specificity", "sensitivity": "Sensitivity", "accuracy": "Accuracy", "iou": "IoU",
    "dice": "Dice", "pro": "PRO", "pro_all": "PRO, all images",
}  # fmt: skip


@dataclass
class Line:
    """A row of a table, as it is shown in the report.

    values: Mean and standard deviation over seeds by metric; the standard deviation is None for a single seed.
    ci: 95 % interval of the first seed by metric.
    paper: The paper's numbers by metric; `spread` contains their standard deviations over five runs.
    derived: How a number that the paper does not print was derived, or "".
    starred: Whether our row does not use ImageNet's weights; `paper_starred` is the same for the paper's row.
    seeds: Number of seeds with results; `collapsed` counts those whose encoder has collapsed.
    seconds: Mean duration over seeds; `memory` is the mean peak memory in bytes.
    error: Reason why there are no results, or "".
    """

    label: str
    values: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    ci: dict[str, list[float]] = field(default_factory=dict)
    paper: dict[str, float] = field(default_factory=dict)
    spread: dict[str, float] = field(default_factory=dict)
    derived: str = ""
    starred: bool = False
    paper_starred: bool = False
    seeds: int = 0
    collapsed: int = 0
    seconds: float | None = None
    memory: float | None = None
    fits: list[str] = field(default_factory=list)
    error: str = ""


def lines_of(table: Table, cells: list[Cell], dataset: str, roi: bool, protocol: str) -> list[Line]:
    """Returns a `Line` for each row of a table, computed from its cells. A row without results has an `error`."""
    lines = []
    for arm in table.arms:
        row_cells = [c for c in cells if c.label == arm.label]
        finished = [c for c in row_cells if not c.error]
        line = Line(arm.label, paper=published(table.name, dataset, arm.label), seeds=len(finished))
        line.spread = spread(table.name, dataset, arm.label)
        line.starred = is_starred(arm)
        line.paper_starred = table.name == "detection" and arm.label in STARRED.get(dataset, ())
        line.derived = DERIVED.get((table.name, dataset, arm.label), "")
        line.error = "" if finished else next((c.error for c in row_cells if c.error), "not run")
        line.fits = [c.fit for c in finished]
        line.collapsed = sum(c.collapsed for c in finished)
        line.seconds = _mean([c.seconds for c in finished])
        line.memory = _mean([c.memory for c in finished])
        for metric in table.metrics:
            values = [v for c in finished if (v := c.rows[protocol, roi].get(metric)) is not None]
            if values:
                deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
                line.values[metric] = (float(np.mean(values)), deviation)
                interval = finished[0].rows[protocol, roi].get(f"{metric}_ci")
                if interval:
                    line.ci[metric] = interval
        lines.append(line)
    return lines


def _mean(values: list[Any]) -> float | None:
    present = [v for v in values if v is not None]
    return float(np.mean(present)) if present else None


@dataclass
class Claim:
    """A claim that the row `better` is better than the row `than`, with the result of its test.

    difference: Mean of `metric` over seeds for `better`, minus the mean for `than`.
    p: p value of the paired test; `corrected` is the p value after Holm's correction.
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
        """Whether the row `better` is significantly better at the 0.05 level after correction."""
        return self.difference > 0 and self.corrected < 0.05


def judged_claims(
    store: Store, tables: list[Table], cells: dict[str, list[Cell]], roi: bool, protocol: str
) -> list[Claim]:
    """Tests all claims whose two rows have results: AUROC by DeLong's test, and Dice by a paired bootstrap.

    The tests treat patients or, if these are unknown, images as independent. Holm's correction is applied to the claims
    of all tables together.
    cells: Cells by the name of their table.
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
