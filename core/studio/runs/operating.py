"""The operating point of a run: the score above which an image is flagged, and who or what set it.

There is one for each run, and a run is of one study. `readings.flagged` follows it, and with that worklist, figures,
maps and exports.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from core.studio.db import audit
from core.studio.db.store import Store, now

FLAG_PERCENTILE = 95.0
SOURCES = {  # strongest first
    "dragged": "set by hand on the ROC curve",
    "learnt": "learnt from the readers’ decisions",
    "promise": "the promise of false alarms, from held-out normals",
    "default": f"the {FLAG_PERCENTILE:g}th percentile of held-out normals",
}


@dataclass(frozen=True)
class OperatingPoint:
    """The rule by which a run's images are flagged, and who or what set it.

    threshold: flagged above it; None: by the percentile. labels: whether the study's labels were in sight when it was
    chosen. reader, created: who chose it and when; "" of the default.
    """

    source: str = "default"
    threshold: float | None = None
    labels: bool = False
    reader: str = ""
    created: str = ""

    @property
    def words(self) -> str:
        sight = "" if self.source == "default" else f", with the labels {'' if self.labels else 'not '}in sight"
        return f"{SOURCES[self.source]}{sight}"

    def flagged(self, scores: np.ndarray, percentiles: np.ndarray) -> np.ndarray:
        """Says which images are flagged, bool (N,), from their scores and percentiles (N,)."""
        return np.asarray(percentiles >= FLAG_PERCENTILE if self.threshold is None else scores > self.threshold)


USUAL = OperatingPoint()


def in_force(store: Store, *runs: str) -> dict[str, OperatingPoint]:
    """Returns the operating point of each run: dragged, else learnt, else the promise, else the default."""
    marks = ", ".join("?" * len(runs))
    rows = store.query(f"SELECT * FROM operating_points WHERE run IN ({marks})", list(runs))
    return {run: strongest([row for row in rows if row["run"] == run]) for run in runs}


def strongest(rows: list[dict[str, Any]]) -> OperatingPoint:
    """Returns the point that decides among a run's rows of `operating_points`; the default if there are none."""
    ranked = sorted(rows, key=lambda row: list(SOURCES).index(row["source"]))
    if not ranked:
        return USUAL
    row = {name: value for name, value in ranked[0].items() if name != "run"}
    return OperatingPoint(**{**row, "labels": bool(row["labels"])})


def choose(
    store: Store, study: str, run: str, source: str, threshold: float | None, reader: str, labels: bool
) -> OperatingPoint:
    """Keeps a point of that source, or removes it (threshold None), flags anew, and writes it to the audit trail.

    Returns the point in force, which may be a stronger one. Raises ValueError for a source that cannot be chosen.
    """
    if source not in SOURCES or source == "default":
        raise ValueError(f"an operating point is one of dragged, learnt and promise, not {source!r}")
    with store.write() as db:
        before = in_force(store, run)[run]
        if threshold is None:
            db.execute("DELETE FROM operating_points WHERE run = ? AND source = ?", [run, source])
        else:
            values = [run, source, float(threshold), int(labels), reader, now()]
            db.execute("INSERT OR REPLACE INTO operating_points VALUES (?, ?, ?, ?, ?, ?)", values)
        after = in_force(store, run)[run]
        flag(store, run, after)
        facts: list[dict[str, Any]] = [{"run": run, **asdict(point)} for point in (before, after)]
        audit.record(store, reader, "operating-point", study=study, before=facts[0], after=facts[1])
    return after


def flag(store: Store, run: str, point: OperatingPoint) -> None:
    """Sets the flags of all the run's readings by that point.

    `flagged_roi` goes by the score inside the region of interest.
    """
    name, sign, level = "percentile", ">=", FLAG_PERCENTILE
    if point.threshold is not None:
        name, sign, level = "score", ">", point.threshold
    sets = ", ".join(f"flagged{end} = ({name}{end} {sign} ?)" for end in ("", "_roi"))
    store.execute(f"UPDATE readings SET {sets} WHERE run = ?", [level, level, run])
