"""The lines of a table from its cells: mean and standard deviation over seeds, and the paper's numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from core.studio.report.cells import Cell
from core.studio.report.published import DERIVED, STARRED, published, spread
from core.studio.report.tables import Table, is_starred

HEADS = {
    "auroc": "AUROC", "specificity": "Specificity", "sensitivity": "Sensitivity", "accuracy": "Accuracy", "iou": "IoU",
    "dice": "Dice", "pro": "PRO", "pro_all": "PRO, all images",
}  # fmt: skip


@dataclass
class Line:
    """A row of a table.

    values: (mean, standard deviation over seeds or None) by metric. ci: the first seed's 95 % interval by metric.
    paper: the published numbers. spread: their standard deviation over five runs, if printed. derived: how numbers that
    are not printed were derived. starred, paper_starred: whether our row, or the paper's, does not use ImageNet's
    weights. collapsed: number of seeds whose encoder collapsed. error: why there are no results.
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
    """Summarises cells as one line per row of the table; a row without results has an error."""
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
