"""The operating point of a run: the score above which an image is flagged, and how and by whom it was set.

Each run has a history of operating points, of which the last one is in effect. It determines which scores are stored as
flagged, and therefore the worklists, metrics, maps and exports.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from core.studio.db import audit
from core.studio.db.store import Store, now

FLAG_PERCENTILE = 95.0
LIMIT = 0.05  # fraction of normal images that may be flagged
SOURCES = {
    "dragged": "set to a chosen score",
    "limit": f"false alarms limited to {100 * LIMIT:g} %, by the held-out normals",
    "readers": "fitted to the readers’ decisions",
    "default": f"the {FLAG_PERCENTILE:g}th percentile of held-out normals",
}


@dataclass(frozen=True)
class OperatingPoint:
    """Rule by which a run's images are flagged, and how and by whom it was set.

    source: How the rule was set, one of SOURCES.
    threshold: Score above which images are flagged, or None to flag images from percentile FLAG_PERCENTILE on.
    labels: Whether the study's labels were visible when the rule was set.
    reader: Name of the person who set the rule, at the time `created`; both are "" for the default.
    """

    source: str = "default"
    threshold: float | None = None
    labels: bool = False
    reader: str = ""
    created: str = ""

    @property
    def words(self) -> str:
        sight = "" if self.source == "default" else f", with the labels {'' if self.labels else 'not '}visible"
        return f"{SOURCES[self.source]}{sight}"

    def flagged(self, scores: np.ndarray, percentiles: np.ndarray) -> np.ndarray:
        """Decides which images are flagged, bool (N,), by their scores (N,) and percentiles (N,)."""
        return np.asarray(percentiles >= FLAG_PERCENTILE if self.threshold is None else scores > self.threshold)


USUAL = OperatingPoint()
COLUMNS = "source, threshold, labels, reader, created"


def in_effect(store: Store, *runs: str) -> dict[str, OperatingPoint]:
    """Returns {run: operating point}: the point that was last set for the run, or else the default."""
    of_runs = "run IN (SELECT value FROM json_each(?)) GROUP BY run"
    query = f"SELECT run, max(id), {COLUMNS} FROM operating_points WHERE {of_runs}"  # the row with max(id)
    last = {row["run"]: row for row in store.query(query, [json.dumps(runs)])}
    return {run: of_row(last.get(run)) for run in runs}


def level_of(store: Store, run: str, point: OperatingPoint) -> float | None:
    """Returns the threshold of an operating point for scores inside the region of interest, or None if unknown."""
    [row] = store.query("SELECT json_extract(summary, '$.threshold_roi') AS usual FROM runs WHERE id = ?", [run])
    usual: float | None = row["usual"]
    return usual if point.threshold is None else point.threshold


def history(store: Store, run: str) -> list[OperatingPoint]:
    """Lists all operating points that were set for a run, newest first."""
    rows = store.query(f"SELECT {COLUMNS} FROM operating_points WHERE run = ? ORDER BY id DESC", [run])
    return [of_row(row) for row in rows]


def of_row(row: dict[str, Any] | None) -> OperatingPoint:
    """Converts a database row to an operating point, and None to the default operating point."""
    if row is None:
        return USUAL
    return OperatingPoint(**{name: row[name] for name in COLUMNS.split(", ")} | {"labels": bool(row["labels"])})


def choose(
    store: Store, study: str, run: str, source: str, threshold: float | None, reader: str, labels: bool = False
) -> OperatingPoint:
    """Sets a run's operating point, updates all flags and the audit trail; returns the operating point.

    source: How the point was set, one of SOURCES. With `default`, the threshold must be None.

    Raises ValueError for an unknown source, or if the threshold is missing.
    """
    if source not in SOURCES:
        raise ValueError(f"The source of an operating point must be {', '.join(SOURCES)}, not {source!r}.")
    if (threshold is None) != (source == "default"):
        raise ValueError("An operating point needs a threshold; a reset to the default takes none.")
    point = OperatingPoint(source, None if threshold is None else float(threshold), labels, reader, now())
    with store.write() as db:
        before = in_effect(store, run)[run]
        db.table("operating_points").insert({"run": run, **asdict(point), "labels": int(labels)})
        flag(store, run, point)
        facts: list[dict[str, Any]] = [{"run": run, **asdict(setting)} for setting in (before, point)]
        audit.record(store, reader, "operating-point", study=study, before=facts[0], after=facts[1])
    return point


def flag(store: Store, run: str, point: OperatingPoint) -> None:
    """Applies an operating point to all scores of a run: updates the columns `flagged` and `flagged_roi`."""
    name, sign, level = "percentile", ">=", FLAG_PERCENTILE
    if point.threshold is not None:
        name, sign, level = "score", ">", point.threshold
    sets = ", ".join(f"flagged{end} = ({name}{end} {sign} ?)" for end in ("", "_roi"))
    store.execute(f"UPDATE readings SET {sets} WHERE run = ?", [level, level, run])
