"""Open sign-ins: kept as hashes, over in time, with the account and with its password."""

from __future__ import annotations

import pytest

from core.studio.review import accounts, sessions


@pytest.fixture
def ada(store):
    accounts.add_reader(store, "Ada", "a long password")
    return store


def test_a_session_is_kept_by_its_hash_alone(ada):
    secret = sessions.start(ada, "Ada", 1)
    assert sessions.reader_of(ada, secret) == "Ada"
    kept = ada.one("SELECT * FROM sessions")
    assert kept["reader"] == "Ada" and secret not in kept.values()
    assert sessions.reader_of(ada, kept["hash"]) is None, "what the database holds lets nobody in"


def test_a_session_ends_in_time_and_is_then_removed(ada):
    secret = sessions.start(ada, "Ada", -1)
    assert sessions.reader_of(ada, secret) is None
    sessions.start(ada, "Ada", 1)
    assert len(ada.query("SELECT * FROM sessions")) == 1


def test_signing_out_ends_one_session_and_a_new_password_ends_all(ada):
    first, second, third = (sessions.start(ada, "Ada", 1) for _ in range(3))
    sessions.end(ada, first)
    assert [sessions.reader_of(ada, s) for s in (first, second, third)] == [None, "Ada", "Ada"]
    accounts.add_reader(ada, "Ada", "another password")
    assert [sessions.reader_of(ada, s) for s in (second, third)] == [None, None]


def test_a_removed_account_has_no_session(ada):
    accounts.add_reader(ada, "Ben", "a long password", "administrator")
    ours, theirs = sessions.start(ada, "Ada", 1), sessions.start(ada, "Ben", 1)
    accounts.remove_reader(ada, "Ben")
    assert sessions.reader_of(ada, theirs) is None and sessions.reader_of(ada, ours) == "Ada"
    late = sessions.start(ada, "Ben", 1)
    assert sessions.reader_of(ada, late) is None, "not even one that was started after the removal"
