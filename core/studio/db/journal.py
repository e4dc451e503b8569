"""Stores and reads the metrics of a run by training step, and the lines of its log."""

from __future__ import annotations

import math

from core.studio.db.store import Row, Store, now

KEPT = 2000  # approximate number of steps whose metrics are kept; at most twice as many are
RECENT = 1000  # number of most recent steps whose metrics are all kept


def write_metrics(store: Store, run_id: str, rows: list[tuple[int, str, float]]) -> None:
    """Writes (step, name, value) rows and replaces earlier values of the same step; NaN and infinity become NULL."""
    keep = [(run_id, step, name, value if math.isfinite(value) else None) for step, name, value in rows]
    with store.write() as db:
        db.conn.executemany("INSERT OR REPLACE INTO metrics (run, step, name, value) VALUES (?, ?, ?, ?)", keep)


def stride_of(last: int, most: int) -> int:
    """Returns the smallest power of two that divides at most 2 * `most` of the steps 1 to `last`."""
    stride = 1
    while last // stride > 2 * most:
        stride *= 2
    return stride


def thin_metrics(store: Store, run_id: str, last: int) -> None:
    """Thins a run's metrics: keeps the first two steps, the last RECENT steps and, in between, multiples of a stride.

    All metrics per epoch (`val_...`) are kept. The stride is from `stride_of`; the page draws multiples of it, too.
    """
    stride = stride_of(last, KEPT)
    if stride > 1:
        store.execute(
            "DELETE FROM metrics WHERE run = ? AND step > 2 AND step <= ? AND step % ? != 0 "
            "AND substr(name, 1, 4) != 'val_'",
            [run_id, last - RECENT, stride],
        )


def metrics(store: Store, run_id: str, after: int = -1) -> dict[str, list[tuple[int, float]]]:
    """Returns a run's metrics after the step `after` as {name: [(step, value)]}, in order of increasing step."""
    series: dict[str, list[tuple[int, float]]] = {}
    rows = store.query(
        "SELECT name, step, value FROM metrics WHERE run = ? AND step > ? ORDER BY name, step", [run_id, after]
    )
    for row in rows:
        series.setdefault(row["name"], []).append((row["step"], row["value"]))
    return series


def log(store: Store, run_id: str, line: str) -> None:
    """Appends a line to a run's log."""
    store.execute("INSERT INTO logs (run, at, line) VALUES (?, ?, ?)", [run_id, now(), line])


def read_log(store: Store, run_id: str, last: int = 200) -> list[Row]:
    """Returns the latest lines of a run's log (at most `last`), oldest first: [{"at", "line"}]."""
    rows = store.query("SELECT at, line FROM logs WHERE run = ? ORDER BY id DESC LIMIT ?", [run_id, last])
    return rows[::-1]
