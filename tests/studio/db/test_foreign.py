"""The reader of foreign content: bounded, typed, refused with one sentence; the machine's own errors pass."""

import errno
import sqlite3

import pytest

from core.engine.config import BadConfig
from core.studio.db.foreign import Count, Name, Number, Record, Refused, bounded, parts_of, read, read_json, refusing


class Thing(Record):
    """A document for these tests."""

    name: Name
    size: Count
    share: Number | None = None


@pytest.mark.parametrize("text", [
    "{", "NaN", "[1e999]", '"\\ud800"', "[" * 100, '{"a": ' * 40 + "1" + "}" * 40, "9" * 5000, str(2**64), b"\xff",
])  # fmt: skip
def test_read_json_refuses_what_is_out_of_bounds(text):
    with pytest.raises(Refused, match="^the card is damaged"):
        read_json(text, "the card")


def test_bounded_counts_values_and_depth():
    assert bounded({"a": [1, 2.5, None, "x"]}) == {"a": [1, 2.5, None, "x"]}
    for value, limits in (([1, 2, 3], {"most": 3}), ([[1]], {"deepest": 1}), ("xx", {"longest": 1})):
        with pytest.raises(ValueError, match="too"):
            bounded(value, **limits)


@pytest.mark.parametrize("value, words", [
    ({"name": "x"}, "size is missing"),
    ({"name": "x", "size": 1, "more": 2}, "more is unknown"),
    ({"name": "x", "size": "1"}, "size must be a whole number"),
    ({"name": "x", "size": True}, "size must be a whole number"),
    ({"name": "x", "size": 10**18 * 9, "share": "x"}, "share must be a number"),
    ({"name": "", "size": 1}, "name must have at least 1 character"),
    ({"name": "a\0", "size": 1}, "it is not valid text"),
    ([1], "it must be"),
])  # fmt: skip
def test_read_says_what_is_wrong_in_words(value, words):
    with pytest.raises(Refused, match=words):
        read(Thing, value, "the thing")


def test_refusing_lets_the_machines_errors_and_own_sentences_pass():
    for error in (
        OSError(errno.ENOSPC, "No space left on device"), sqlite3.OperationalError("database is locked"),
        BadConfig("lr must be above 0"), KeyboardInterrupt(),
    ):  # fmt: skip
        with pytest.raises(type(error)), refusing("the thing"):
            raise error
    for error in (KeyError("x"), StopIteration(), RecursionError(), UnicodeError(), OverflowError(), ValueError("'x'")):
        with pytest.raises(Refused, match="^the thing is damaged"), refusing("the thing"):
            raise error


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", "a/../b", "a\\b", "C:/x", ".", "", "x" * 300, "a/\n", "\ud800"])
def test_parts_of_names_nothing_outside(name):
    with pytest.raises(Refused, match="an unsafe name"):
        parts_of(name)
