"""What a run leaves behind while it is at work: numbers by step, and lines for people."""

from __future__ import annotations

import math

from core.studio.db.store import Row, Store, now


def write_metrics(store: Store, run_id: str, rows: list[tuple[int, str, float]]) -> None:
    """(step, name, value) rows in one transaction; a step written again (after a resume) replaces itself."""
    keep = [(run_id, step, name, value if math.isfinite(value) else None) for step, name, value in rows]
    with store.write() as db:
        db.conn.executemany("INSERT OR REPLACE INTO metrics (run, step, name, value) VALUES (?, ?, ?, ?)", keep)


def metrics(store: Store, run_id: str, after: int = -1) -> dict[str, list[tuple[int, float]]]:
    """name -> [(step, value)] in the order of steps; `after` gives only later steps."""
    found: dict[str, list[tuple[int, float]]] = {}
    rows = store.query(
        "SELECT name, step, value FROM metrics WHERE run = ? AND step > ? ORDER BY name, step", [run_id, after]
    )
    for row in rows:
        found.setdefault(row["name"], []).append((row["step"], row["value"]))
    return found


def log(store: Store, run_id: str, line: str) -> None:
    """Add a line to the run's log."""
    store.execute("INSERT INTO logs (run, at, line) VALUES (?, ?, ?)", [run_id, now(), line])


def read_log(store: Store, run_id: str, last: int = 200) -> list[Row]:
    """The last lines, oldest first: [{"at", "line"}]."""
    rows = store.query("SELECT at, line FROM logs WHERE run = ? ORDER BY id DESC LIMIT ?", [run_id, last])
    return rows[::-1]
