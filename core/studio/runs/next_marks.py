"""Which cases to mark next: an order of the test cases by how much a detector would learn from their marks, each with
the reason in a few words.

A detector learns most if its learnt map is uncertain, or if the most suspicious position is unlike all marked lesions.
Every fifth case is drawn at random, because an order by uncertainty never shows cases that are confidently wrong.
"""

from __future__ import annotations

import zlib

import numpy as np
import scipy  # stats loads when it is first used: it takes a second

from core.studio.db.store import Store
from core.studio.runs import marks
from core.studio.runs import records as runs
from core.studio.runs.preferred import LEARNT

CHANCE = 5  # every CHANCE-th case is drawn at random
WORDS = {"unsure": "its outline is unsure", "novelty": "unlike what is marked", "chance": "drawn at random"}


def ordered(unsure: np.ndarray, novelty: np.ndarray, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    """Orders cases by how much would be learnt from them: returns their indices (N,), most first, and reasons of WORDS.

    unsure, novelty: (N,), larger is more. Their ranks are added, so that both have the same weight.
    """
    count = len(unsure)
    ranks = np.stack([scipy.stats.rankdata(values) for values in (unsure, novelty)])
    waiting = np.argsort(-ranks.sum(0), kind="stable").tolist()
    draw = np.random.default_rng(seed)
    order, words = [], []
    for number in range(1, count + 1):
        by_chance = number % CHANCE == 0
        case = waiting.pop(int(draw.integers(len(waiting))) if by_chance else 0)
        order.append(case)
        words.append(WORDS["chance" if by_chance else ("unsure", "novelty")[int(ranks[:, case].argmax())]])
    return np.array(order, int), words


def keep_order(store: Store, run: str) -> int:
    """Stores a new order of a scored run's test cases by how much would be learnt from them; returns their number.

    Cases that the run has learnt from are not included. The number is 0 if the run has not learnt from marks.
    """
    if runs.get_run(store, run)["method"] != LEARNT:
        return 0  # without reading its large readings
    rows = store.query(
        "SELECT r.case_id AS id, json_extract(r.extra, '$.unsure') AS unsure, json_extract(r.extra, '$.novelty') AS "
        "novelty FROM readings r JOIN cases c ON c.id = r.case_id WHERE r.run = ? AND c.split = 'test' ORDER BY c.id",
        [run],
    )
    learnt = marks.learnt_from(store, run)
    rows = [row for row in rows if row["unsure"] is not None and row["id"] not in learnt]
    unsure, novelty = (np.array([row[k] for row in rows]) for k in ("unsure", "novelty"))
    order, words = ordered(unsure, novelty, zlib.crc32(run.encode()))
    with store.write() as db:
        db.execute("DELETE FROM next_marks WHERE run = ?", [run])
        db.table("next_marks").insert_all(
            {"run": run, "case_id": rows[case]["id"], "value": len(rows) - position, "why": why}
            for position, (case, why) in enumerate(zip(order, words, strict=True))
        )
    return len(rows)
