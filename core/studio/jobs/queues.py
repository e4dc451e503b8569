"""Two lanes of jobs: what trains goes one at a time; what only reads finished runs goes on beside it.

A chain that trains, fits or draws the demo is long. All else (taking in new cases, scoring, evaluation, maps) is short,
unless it names a run that a long job has yet to work on: then it goes behind that job, in the long lane.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from core.studio.db.store import Store
from core.studio.jobs.steps import is_long

LONG, SHORT = "long", "short"
LANES = (SHORT, LONG)


def lane_of(store: Store, steps: list[dict]) -> tuple[str, str]:
    """(lane, what to say of it while it waits) of a chain, or of what is left of one."""
    if any(is_long(one["verb"]) for one in steps):
        return LONG, ""
    job = awaited(store, {one["run"] for one in steps if one["run"]})
    return (SHORT, "") if job is None else (LONG, f"Waits for job {job}, which is not done with this run yet")


def awaited(store: Store, runs: Iterable[str], verb: str | None = None) -> int | None:
    """The last job of the long lane, queued or running, that has a step (`verb`, or any) on one of the runs ahead."""
    wanted, found = set(runs), None
    query = "SELECT id, chain, position FROM jobs WHERE lane = 'long' AND status IN ('queued', 'running') ORDER BY id"
    for row in store.query(query) if wanted else ():
        if any(s["run"] in wanted and verb in (None, s["verb"]) for s in json.loads(row["chain"])[row["position"] :]):
            found = row["id"]
    return found


def beside(store: Store, lane: str) -> int | None:
    """The job that runs in the other lane, if any: each lane runs one at a time."""
    row = store.one("SELECT id FROM jobs WHERE lane != ? AND status = 'running'", [lane])
    return row and row["id"]
