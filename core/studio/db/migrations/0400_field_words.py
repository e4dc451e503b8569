"""Tables and columns by the field's words: a job has a queue and steps, a watched folder has incoming files."""

from __future__ import annotations

import json

import sqlite_utils

STATEMENTS = [
    "ALTER TABLE jobs RENAME COLUMN lane TO queue",
    "ALTER TABLE jobs RENAME COLUMN verb TO step",
    "ALTER TABLE arrivals RENAME TO incoming",
    "DROP INDEX arrivals_by_state",
    "CREATE INDEX incoming_by_state ON incoming (study, state, at)",
]
STEPS = {"intake": "import", "place": "project"}  # name in older homes: name now


def apply(db: sqlite_utils.Database) -> None:
    for statement in STATEMENTS:
        db.conn.execute(statement)
    for old, new in STEPS.items():
        db.conn.execute("UPDATE jobs SET step = ? WHERE step = ?", [new, old])
    for job, chain in db.conn.execute("SELECT id, chain FROM jobs").fetchall():
        steps = [{**one, "step": STEPS.get(one["verb"], one["verb"])} for one in json.loads(chain)]
        for one in steps:
            del one["verb"]
        db.conn.execute("UPDATE jobs SET chain = ? WHERE id = ?", [json.dumps(steps), job])
