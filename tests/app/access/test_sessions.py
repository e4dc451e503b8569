"""The door's cookies and the key that signs them."""

from __future__ import annotations

import pytest

from app.access.sessions import KEY_BYTES, Sessions, read_key
from core.studio.db import opening
from core.studio.review import people


@pytest.fixture
def store(tmp_path):
    store = opening.open(str(tmp_path / "home"))
    people.add_reader(store, "Ada", "a long password")
    yield store
    store.close()


@pytest.mark.parametrize("found", [None, b"", b"short"])
def test_a_key_that_is_absent_or_too_short_is_made_anew(tmp_path, found):
    path = tmp_path / "session.key"
    if found is not None:
        path.write_bytes(found)
    key = read_key(path)
    assert len(key) >= KEY_BYTES and read_key(path) == key, "and kept from then on"
    assert path.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == [path]


def test_cookies_cannot_be_made_up_or_altered(store, tmp_path):
    ours = Sessions(store)
    good = ours.start("Ada")
    assert ours.name_of(good) == "Ada"
    assert Sessions(store).name_of(good) == "Ada", "a restart signs nobody out"
    assert ours.name_of(good[:-4] + "AAAA") is None
    assert ours.name_of(None) is None and ours.name_of("nonsense!") is None and ours.name_of("ü.ü") is None
    (tmp_path / "home" / "session.key").unlink()
    assert Sessions(store).name_of(good) is None, "another key"


def test_the_mark_of_a_known_browser_is_for_one_reader_and_password(store):
    people.add_reader(store, "Ben", "a long password")
    sessions = Sessions(store)
    mark = sessions.mark_browser("Ada")
    assert sessions.known_browser(mark, "Ada") and sessions.known_browser(mark, "Ben") is None
    assert sessions.known_browser(mark[:-3] + "AAA", "Ada") is None and sessions.known_browser(None, "Ada") is None
    assert sessions.name_of(mark) is None, "it is no session"
    people.add_reader(store, "Ada", "another password")
    assert sessions.known_browser(mark, "Ada") is None
