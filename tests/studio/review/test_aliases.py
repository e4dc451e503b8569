"""Aliases of cases: neutral, other ones in each session, and of no use in another."""

import shutil

import numpy as np
import pytest
from scipy.stats import spearmanr

from core.studio.db import opening
from core.studio.db.store import NotFound
from core.studio.review import masks, sessions
from core.studio.review.people import add_reader
from core.studio.review.sessions import FIRST
from tests.studio.review.conftest import asks, decide, fill, save_mask


def _numbers(store, ids, reader="ann") -> list[int]:
    return [asks(store, reader, case_id=i).names.number(i) for i in ids]


def _case(store, number, reader="ann") -> int:
    return asks(store, reader, number=number).asked_case["id"]


@pytest.fixture
def blinded(room):
    store, _ = room
    sessions.set_blind(store, "room", True, "root")
    add_reader(store, "chief", "long enough", "adjudicator")
    return store, [c["id"] for c in store.query("SELECT id FROM cases ORDER BY id")]


def test_an_alias_leads_back_to_its_case_and_fits_in_the_pages_numbers(blinded):
    store, ids = blinded
    found = _numbers(store, ids, "ann")
    assert [_case(store, a, "ann") for a in found] == ids and len(set(found)) == len(ids)
    assert all(FIRST <= a < 2**53 for a in found)
    assert _numbers(store, ids, "ann") == found, "a page that is open survives a restart"
    other = opening.open(store.home)
    assert _numbers(other, ids, "ann") == found
    other.close()


def test_aliases_and_names_follow_no_order(bare):
    ids = fill(bare, 2000)
    sessions.set_blind(bare, "large", True, "root")
    names = asks(bare, study="large").names
    assert abs(spearmanr(ids, [names.number(i) for i in ids]).statistic) < 0.1
    assert abs(spearmanr(ids, [names.name(i) for i in ids]).statistic) < 0.1


def test_an_alias_of_another_session_or_reader_is_no_case(blinded):
    store, ids = blinded
    numbers = _numbers(store, ids, "ann")
    for reader in ("ben", "chief"):
        asks(store, reader, study="room")
        for number in [*numbers, max(numbers) + 1, min(numbers) - 1]:
            with pytest.raises(NotFound):
                _case(store, number, reader)
        with pytest.raises(NotFound):
            asks(store, reader, study="room").of_study(numbers[:1])
    sessions.start_session(store, "room", "ann", ids)
    for number in numbers:
        with pytest.raises(NotFound):
            _case(store, number)


def test_a_blind_readers_own_numbers_are_refused_like_numbers_that_do_not_exist(blinded):
    store, ids = blinded
    errors = []
    for number in (ids[0], 10**6):
        with pytest.raises(NotFound) as caught:
            _case(store, number)
        errors.append(str(caught.value).replace(str(number), "N"))
    assert errors[0] == errors[1]
    assert _case(store, ids[0], "chief") == ids[0]
    sessions.set_blind(store, "room", False, "root")
    assert _case(store, ids[0]) == ids[0]


def test_a_row_loses_name_hash_and_sort_value(blinded):
    store, ids = blinded
    case = store.one("SELECT * FROM cases WHERE id = ?", [ids[3]])
    row = {"id": case["id"], "name": case["name"], "v": case["sha256"][:10], "key": [0, case["sha256"], case["id"]]}
    shown = asks(store, study="room").names.shown(row)
    values = [shown["id"], shown["name"], shown["v"], *shown["key"]]
    assert not {case["id"], case["name"], case["sha256"], case["sha256"][:10]} & set(values)
    assert case["name"] not in str(shown) and case["sha256"][:10] not in str(shown)
    assert asks(store, "chief", study="room").names.shown(row) == row


def test_a_case_that_comes_later_stands_behind_the_others_and_they_keep_their_numbers(blinded):
    store, ids = blinded
    before = _numbers(store, ids)
    with store.write() as db:
        for i in range(40):
            db.execute(
                'INSERT INTO cases (study, name, path, split, label, "row", added) '
                "VALUES ('room', ?, ?, 'test', 'unknown', ?, '')",
                [f"new {i}", f"/new/{i}", 1000 + i],
            )
    late = [r["id"] for r in store.query("SELECT id FROM cases WHERE name LIKE 'new %' ORDER BY id")]
    numbers = _numbers(store, late)
    assert _numbers(store, ids) == before and min(numbers) > max(before)
    assert numbers != sorted(numbers), "in a random order too"


def test_a_masks_number_counts_neither_those_of_other_cases_nor_of_other_readers(blinded):
    store, ids = blinded
    case = store.first("SELECT case_id FROM lesion_masks ORDER BY id")["case_id"]
    decide(store, case, "ann", "abnormal")
    store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copytree(store.home.path, store.home.path.parent / "other")
    other, empty = opening.open(str(store.home.path.parent / "other")), np.zeros((60, 72))
    for of in (ids[-1], case):
        save_mask(other, of, empty, "root")
    told = []
    for home in (store, other):
        drawn = [save_mask(home, case, empty, "ann")["mask"] for _ in range(2)]
        context = asks(home, case_id=case)
        shown = [row["id"] for row in masks.versions(context, case)]
        assert shown[:2] == drawn[::-1] and [masks.of_case(context, number)["number"] for number in shown] == shown
        assert {masks.case_of(home, number, "ann") for number in shown} == {case}
        told.append(shown)
    assert told[0] == told[1] and len(set(told[0])) == 3
    other.close()
