"""Accounts: hashes and never passwords, no hint of which names exist."""

from __future__ import annotations

import pytest

from core.studio.db.store import NotFound
from core.studio.review import people


def test_right_and_wrong_passwords(store):
    people.add_reader(store, "Ada", "a long password", "adjudicator")
    assert people.verify(store, "Ada", "a long password")
    assert not people.verify(store, "Ada", "another password")
    assert not people.verify(store, "Bob", "a long password")
    assert people.role_of(store, "Ada") == "adjudicator"
    kept = store.one("SELECT password_hash FROM readers")["password_hash"]
    assert kept.startswith("$argon2id$") and "a long password" not in kept
    assert "password_hash" not in people.list_readers(store)[0]


def test_the_mark_of_a_password_changes_with_it_and_goes_with_the_account(store):
    assert people.password_mark(store, "Ada") == ""
    people.add_reader(store, "Ada", "a long password")
    first = people.password_mark(store, "Ada")
    people.add_reader(store, "Ada", "a long password")
    assert first and people.password_mark(store, "Ada") not in ("", first), "salted: not even the same word again"
    people.remove_reader(store, "Ada")
    assert people.password_mark(store, "Ada") == ""


def test_a_removed_reader_cannot_sign_in(store):
    people.add_reader(store, "Ada", "a long password")
    people.remove_reader(store, "Ada")
    assert not people.verify(store, "Ada", "a long password")
    assert [r["active"] for r in people.list_readers(store)] == [0]
    with pytest.raises(NotFound):
        people.remove_reader(store, "Bob")


@pytest.mark.parametrize(("name", "password", "role"), [("", "long enough", "reader"), ("Ada", "short", "reader"),
                                                        ("Ada", "long enough", "king")])  # fmt: skip
def test_what_an_account_needs_is_a_sentence(store, name, password, role):
    with pytest.raises(ValueError, match=r"has|is one of"):
        people.add_reader(store, name, password, role)
