"""Accounts: hashes and never passwords, no hint of which names exist."""

from __future__ import annotations

import pytest

from core.studio.db.store import NotFound
from core.studio.review import accounts


def test_right_and_wrong_passwords(store):
    accounts.add_reader(store, "Ada", "a long password", "adjudicator")
    assert accounts.verify(store, "Ada", "a long password")
    assert not accounts.verify(store, "Ada", "another password")
    assert not accounts.verify(store, "Bob", "a long password")
    assert accounts.role_of(store, "Ada") == "adjudicator"
    kept = store.one("SELECT password_hash FROM readers")["password_hash"]
    assert kept.startswith("$argon2id$") and "a long password" not in kept
    assert "password_hash" not in accounts.list_readers(store)[0]


def test_the_mark_of_a_password_changes_with_it_and_goes_with_the_account(store):
    assert accounts.password_mark(store, "Ada") == ""
    accounts.add_reader(store, "Ada", "a long password")
    first = accounts.password_mark(store, "Ada")
    accounts.add_reader(store, "Ada", "a long password")
    assert first and accounts.password_mark(store, "Ada") not in ("", first), "salted: not even the same word again"
    accounts.remove_reader(store, "Ada")
    assert accounts.password_mark(store, "Ada") == ""


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
