"""The stored metrics of a run, thinned for the screen: curves, matrices, last values."""

from __future__ import annotations

from core.studio.db.journal import stride_of
from core.studio.db.store import Store

POINTS = 500  # points of a thinned series; at most about twice as many
MATRIX = ("aug_confusion", "class_distances")


def series(store: Store, run: str, after: int = -1, stride: int = 0) -> dict:
    """Reads the metrics that a run has stored since step `after`, thinned for the screen, without matrices.

    Returns {"series": {name: [[step, value], ...]}, "stride", "last", "reset"}. Metrics of epochs (val_...) are never
    thinned. If the run has become too long for `stride`, everything is returned again and "reset" is true.
    """
    last = (store.one("SELECT max(step) AS s FROM metrics WHERE run = ?", [run]) or {})["s"]
    current_stride = stride_of(last or 0, POINTS)
    reset = stride != current_stride or (last or 0) < after
    rows = store.query(
        "SELECT name, step, value FROM metrics WHERE run = :run AND step > :after AND (step % :stride = 0 OR step <= 2 "
        "OR substr(name, 1, 4) = 'val_' OR step = :last) AND name NOT LIKE 'aug!_confusion!_%' ESCAPE '!' "
        "AND name NOT LIKE 'class!_distances!_%' ESCAPE '!' ORDER BY name, step",
        {"run": run, "after": -1 if reset else after, "stride": current_stride, "last": last},
    )
    by_name: dict[str, list] = {}
    for row in rows:
        by_name.setdefault(row["name"], []).append([row["step"], row["value"]])
    return {"series": by_name, "stride": current_stride, "last": -1 if last is None else last, "reset": reset}


def matrix(store: Store, run: str, name: str) -> dict | None:
    """Reads the latest matrix called `name` as {"step", "rows"}, or None."""
    rows = store.query(
        "SELECT name, step, value FROM metrics WHERE run = :run AND name >= :low AND name < :high AND step = "
        "(SELECT max(step) FROM metrics WHERE run = :run AND name = :first)",
        {"run": run, "low": f"{name}_", "high": f"{name}`", "first": f"{name}_0_0"},
    )
    cells = {tuple(map(int, r["name"].removeprefix(f"{name}_").split("_"))): r["value"] for r in rows}
    side = 1 + max((i for i, _ in cells), default=-1)
    if len(cells) != side * side or not side:
        return None
    return {"step": rows[0]["step"], "rows": [[cells[i, j] for j in range(side)] for i in range(side)]}


def latest(store: Store, run: str, names: tuple[str, ...]) -> dict[str, float]:
    """Reads the last value of each name that the run has stored."""
    values = {}
    for name in names:
        row = store.one(
            "SELECT value FROM metrics WHERE run = ? AND name = ? AND value IS NOT NULL ORDER BY step DESC LIMIT 1",
            [run, name],
        )
        if row:
            values[name] = row["value"]
    return values
