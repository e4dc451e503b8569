"""Open sign-ins: kept as hashes, over in time, with the account and with its password."""

from __future__ import annotations

import pytest

from core.studio.review import people


@pytest.fixture
def ada(store):
    people.add_reader(store, "Ada", "a long password")
    return store


def test_a_session_is_kept_by_its_hash_alone(ada):
    secret = people.start_sign_in(ada, "Ada", 1)
    assert people.reader_of_sign_in(ada, secret) == "Ada"
    kept = ada.one("SELECT * FROM sessions")
    assert kept["reader"] == "Ada" and secret not in kept.values()
    assert people.reader_of_sign_in(ada, kept["hash"]) is None, "what the database holds lets nobody in"


def test_a_session_ends_in_time_and_is_then_removed(ada):
    secret = people.start_sign_in(ada, "Ada", -1)
    assert people.reader_of_sign_in(ada, secret) is None
    people.start_sign_in(ada, "Ada", 1)
    assert len(ada.query("SELECT * FROM sessions")) == 1


def test_signing_out_ends_one_session_and_a_new_password_ends_all(ada):
    first, second, third = (people.start_sign_in(ada, "Ada", 1) for _ in range(3))
    people.end_sign_in(ada, first)
    assert [people.reader_of_sign_in(ada, s) for s in (first, second, third)] == [None, "Ada", "Ada"]
    people.add_reader(ada, "Ada", "another password")
    assert [people.reader_of_sign_in(ada, s) for s in (second, third)] == [None, None]


def test_a_removed_account_has_no_session(ada):
    people.add_reader(ada, "Ben", "a long password", "administrator")
    ours, theirs = people.start_sign_in(ada, "Ada", 1), people.start_sign_in(ada, "Ben", 1)
    people.remove_reader(ada, "Ben")
    assert people.reader_of_sign_in(ada, theirs) is None and people.reader_of_sign_in(ada, ours) == "Ada"
    late = people.start_sign_in(ada, "Ben", 1)
    assert people.reader_of_sign_in(ada, late) is None, "not even one that was started after the removal"
