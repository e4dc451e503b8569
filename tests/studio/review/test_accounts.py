"""Accounts: hashes and never passwords, no hint of which names exist, a pause after misses."""

from __future__ import annotations

import pytest

from core.studio.db.store import NotFound
from core.studio.review import accounts


@pytest.fixture(autouse=True)
def _no_misses():
    accounts._misses.clear()


def test_right_and_wrong_passwords(store):
    accounts.add_reader(store, "Ada", "a long password", "adjudicator")
    assert accounts.verify(store, "Ada", "a long password")
    assert not accounts.verify(store, "Ada", "another password")
    assert not accounts.verify(store, "Bob", "a long password")
    assert accounts.role_of(store, "Ada") == "adjudicator"
    kept = store.one("SELECT password_hash FROM readers")["password_hash"]
    assert kept.startswith("$argon2id$") and "a long password" not in kept
    assert "password_hash" not in accounts.list_readers(store)[0]


def test_after_five_misses_even_the_right_one_waits(store):
    accounts.add_reader(store, "Ada", "a long password")
    for _ in range(5):
        assert not accounts.verify(store, "Ada", "no")
    assert not accounts.verify(store, "Ada", "a long password")
    accounts._misses.clear()
    assert accounts.verify(store, "Ada", "a long password")


def test_a_removed_reader_cannot_sign_in(store):
    accounts.add_reader(store, "Ada", "a long password")
    accounts.remove_reader(store, "Ada")
    assert not accounts.verify(store, "Ada", "a long password")
    assert [r["active"] for r in accounts.list_readers(store)] == [0]
    with pytest.raises(NotFound):
        accounts.remove_reader(store, "Bob")


@pytest.mark.parametrize(("name", "password", "role"), [("", "long enough", "reader"), ("Ada", "short", "reader"),
                                                        ("Ada", "long enough", "king")])  # fmt: skip
def test_what_an_account_needs_is_a_sentence(store, name, password, role):
    with pytest.raises(ValueError, match=r"has|is one of"):
        accounts.add_reader(store, name, password, role)
