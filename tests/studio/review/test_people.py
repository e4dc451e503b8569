"""Accounts as administrators and owners keep them: while a password is hashed, nobody waits."""

import sqlite3

import pytest

from core.studio.db.store import NotFound
from core.studio.review import people

WORD = "a long password"


@pytest.fixture
def beside(store, monkeypatch):
    """A list with an entry for each password hashed; while it is, another connection must be able to write."""
    seen, hash_of = [], people._HASHER.hash
    other = sqlite3.connect(store.home.db, timeout=0, isolation_level=None)

    def hashing(_, password):
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
        seen.append(password)
        return hash_of(password)

    monkeypatch.setattr(type(people._HASHER), "hash", hashing)
    yield seen
    other.close()


@pytest.mark.slow
def test_no_password_is_hashed_inside_a_transaction(store, beside):
    people.keep_account(store, "Root", WORD, "administrator", "machine")
    made = people.invite(store, "Ada", "reader", "Root")
    again = people.reset_password(store, "Ada", "Root")
    assert people.change_password(store, "Ada", again, WORD) == people.password_mark(store, "Ada")
    people.keep_account(store, "Ada", WORD + "!", "adjudicator", "machine")
    assert beside == [WORD, made, again, WORD, WORD + "!"]
    assert people.verify(store, "Ada", WORD + "!") and people.role_of(store, "Ada") == "adjudicator"


def test_a_password_that_is_too_short_changes_nothing(store):
    people.keep_account(store, "Root", WORD, "administrator", "machine")
    mark = people.password_mark(store, "Root")
    for act in (
        lambda: people.keep_account(store, "Root", "short", "administrator", "machine"),
        lambda: people.change_password(store, "Root", WORD, "short"),
        lambda: people.add_reader(store, "Bob", "short"),
    ):
        with pytest.raises(ValueError, match="at least 8"):
            act()
    assert people.password_mark(store, "Root") == mark and people.role_of(store, "Bob") is None


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
