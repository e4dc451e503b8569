"""Which cases to mark next: by doubt and novelty, a fifth by chance, never those that were learnt from."""

import json
import zlib

import numpy as np

from core.studio.review.worklist import Query, Worklist
from core.studio.runs import scoring
from core.studio.runs.scoring import WORDS, ordered
from tests.studio.review.conftest import add_readings, asks


def test_doubt_and_novelty_count_by_rank_and_every_fifth_is_drawn():
    unsure = np.array([0.9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.0])
    novelty = np.array([8, 1, 9, 2, 3, 4, 5, 6, 7, 0]) * 1000.0
    order, words = ordered(unsure, novelty)
    assert sorted(order) == list(range(10)) and order[0] == 0, "the scale of a measure does not matter"
    assert [place for place, why in enumerate(words, 1) if why == WORDS["chance"]] == [5, 10]
    assert words[order.tolist().index(2)] in (WORDS["novelty"], WORDS["chance"])
    assert words[0] == WORDS["unsure"]
    other = [ordered(unsure, novelty, seed)[0][4] for seed in range(20)]
    assert len(set(other)) > 3, "by chance"
    assert (ordered(unsure, novelty)[0] == order).all(), "the same for a seed"
    assert not len(ordered(np.zeros(0), np.zeros(0))[0])


def test_the_worklist_has_them_in_that_order_with_a_word_why(room):
    store, run = room
    assert scoring.keep_order(store, run) == 0, "it has not learnt from marks"
    usual = [row["id"] for row in Worklist(asks(store, study="room", run=run), Query()).page()["rows"]]
    fallen = Worklist(asks(store, study="room", run=run), Query(sort="teaches")).page()["rows"]
    assert [row["id"] for row in fallen] == usual, "by score until something was learnt"

    learnt = add_readings(store, "room", "learnt", 5)
    cases = [r["id"] for r in store.query("SELECT id FROM cases WHERE study = 'room' AND split = 'test' ORDER BY id")]
    config = json.dumps({"marks": {"cases": cases[:1], "masks": [1]}})
    store.execute("UPDATE runs SET config = ? WHERE id = ?", [config, learnt])
    for number, case in enumerate(cases):
        extra = json.dumps({"unsure": number / 100, "novelty": float(number % 3)})
        store.execute("UPDATE readings SET extra = ? WHERE run = ? AND case_id = ?", [extra, learnt, case])
    assert scoring.keep_order(store, learnt) == len(cases) - 1
    want, words = ordered(np.arange(1, len(cases)) / 100, np.arange(1, len(cases)) % 3, zlib.crc32(learnt.encode()))
    rows = Worklist(asks(store, study="room", run=learnt), Query(sort="teaches")).page()["rows"]
    assert [row["id"] for row in rows] == [cases[1 + i] for i in want] + cases[:1]
    assert [row["why"] for row in rows] == [*words, ""]
    again = scoring.keep_order(store, learnt)
    assert again == len(cases) - 1, "anew, not twice"
    store.execute("DELETE FROM runs WHERE id = ?", [learnt])
    assert not store.query("SELECT * FROM next_marks WHERE run = ?", [learnt])
