"""What to mark next: the test cases that a detector which learns from marks would learn most from, in an order of the
worklist, each with a few words why.

Most is learnt where the learnt map is undecided and where the most suspicious place is unlike all that is marked. Every
fifth case is drawn by chance instead: an order by the detector's own doubts never shows what it is wrongly sure of.
"""

from __future__ import annotations

import zlib

import numpy as np
import scipy  # stats loads when it is first used: it takes a second

from core.studio.db.store import Store
from core.studio.runs import marks
from core.studio.runs import records as runs
from core.studio.runs.preferred import LEARNT

CHANCE = 5  # every so manieth case is drawn by chance
WORDS = {"unsure": "its outline is unsure", "novelty": "unlike what is marked", "chance": "drawn by chance"}


def ordered(unsure: np.ndarray, novelty: np.ndarray, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    """Orders cases by how much they teach, most first: (places (N,), for each in that order a reason, of WORDS).

    unsure, novelty (N,): of each case, larger is more. Each counts by its rank, so that neither outweighs the other.
    """
    count = len(unsure)
    ranks = np.stack([scipy.stats.rankdata(values) for values in (unsure, novelty)])
    waiting = np.argsort(-ranks.sum(0), kind="stable").tolist()
    draw = np.random.default_rng(seed)
    order, words = [], []
    for place in range(1, count + 1):
        by_chance = place % CHANCE == 0
        case = waiting.pop(int(draw.integers(len(waiting))) if by_chance else 0)
        order.append(case)
        words.append(WORDS["chance" if by_chance else ("unsure", "novelty")[int(ranks[:, case].argmax())]])
    return np.array(order, int), words


def keep_order(store: Store, run: str) -> int:
    """Orders a scored run's test cases anew by what they teach and stores that; returns how many stand in the order.

    None do if the run has not learnt from marks. Cases that it has learnt from are not among them.
    """
    if runs.get_run(store, run)["method"] != LEARNT:
        return 0  # nor are its readings opened, each of which holds a map
    rows = store.query(
        "SELECT r.case_id AS id, json_extract(r.extra, '$.unsure') AS unsure, json_extract(r.extra, '$.novelty') AS "
        "novelty FROM readings r JOIN cases c ON c.id = r.case_id WHERE r.run = ? AND c.split = 'test' ORDER BY c.id",
        [run],
    )
    known = marks.learnt_from(store, run)
    rows = [row for row in rows if row["unsure"] is not None and row["id"] not in known]
    unsure, novelty = (np.array([row[k] for row in rows]) for k in ("unsure", "novelty"))
    order, words = ordered(unsure, novelty, zlib.crc32(run.encode()))
    with store.write() as db:
        db.execute("DELETE FROM next_marks WHERE run = ?", [run])
        db.table("next_marks").insert_all(
            {"run": run, "case_id": rows[case]["id"], "value": len(rows) - place, "why": why}
            for place, (case, why) in enumerate(zip(order, words, strict=True))
        )
    return len(rows)
