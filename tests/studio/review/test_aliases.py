"""Aliases of cases: neutral, other ones in each session, and of no use in another."""

import pytest
from scipy.stats import spearmanr

from core.studio.db.store import NotFound
from core.studio.review import blind
from core.studio.review.accounts import add_reader
from core.studio.review.aliases import BASE, Aliases


@pytest.fixture
def blinded(room):
    store, _ = room
    blind.set_blind(store, "room", True, "root")
    add_reader(store, "chief", "long enough", "adjudicator")
    return store, [c["id"] for c in store.query("SELECT id FROM cases ORDER BY id")]


def test_an_alias_leads_back_to_its_case_and_fits_in_the_pages_numbers(blinded):
    store, ids = blinded
    names = Aliases(store, "ann", "one")
    found = [names.alias(i) for i in ids]
    assert [names.real(a) for a in found] == ids and len(set(found)) == len(ids)
    assert all(BASE <= a < 2**53 for a in found) and names._decrypt(names.alias(2**28 - 1) - BASE) == 2**28 - 1
    assert [Aliases(store, "ann", "one").alias(i) for i in ids] == found, "a page that is open survives a restart"


def test_aliases_and_names_follow_no_order(bare):
    names = Aliases(bare, "ann")
    ids = range(1, 2001)
    assert abs(spearmanr(ids, [names.alias(i) for i in ids]).statistic) < 0.1
    assert abs(spearmanr(ids, [names.name(i) for i in ids]).statistic) < 0.1


def test_an_alias_of_another_session_or_reader_is_no_case(blinded):
    store, ids = blinded
    for other in (Aliases(store, "ann", "two"), Aliases(store, "ben", "one")):
        for case in ids:
            with pytest.raises(NotFound):
                other.real(Aliases(store, "ann", "one").alias(case))


def test_a_blind_readers_own_numbers_are_refused_like_numbers_that_do_not_exist(blinded):
    store, ids = blinded
    errors = []
    for number in (ids[0], 10**6):
        with pytest.raises(NotFound) as caught:
            Aliases(store, "ann").real(number)
        errors.append(str(caught.value).replace(str(number), "N"))
    assert errors[0] == errors[1]
    assert Aliases(store, "chief").real(ids[0]) == ids[0]
    blind.set_blind(store, "room", False, "root")
    assert Aliases(store, "ann").real(ids[0]) == ids[0]


def test_a_row_loses_name_hash_and_sort_value(blinded):
    store, ids = blinded
    case = store.one("SELECT * FROM cases WHERE id = ?", [ids[3]])
    row = {"id": case["id"], "name": case["name"], "v": case["sha256"][:10], "key": [0, case["sha256"], case["id"]]}
    shown = str(Aliases(store, "ann").shown("room", row))
    assert case["name"] not in shown and case["sha256"][:10] not in shown and f" {case['id']}" not in shown
    assert Aliases(store, "chief").shown("room", row) == row
