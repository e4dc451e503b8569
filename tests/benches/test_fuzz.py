"""Every reader of strangers' data, with some hostile inputs: read or refused, never broken. `bench fuzz` has 10,000."""

import pytest

from tests.benches import fuzz


@pytest.mark.slow
@pytest.mark.parametrize("name", fuzz.READERS)
def test_nothing_breaks_a_reader(name):
    (row,) = fuzz.fuzz(quick=True, only=(name,))["readers"]
    assert row["inputs"] >= 30 and row["failed"] == 0, row
    assert row["refused"] > 0


@pytest.mark.slow
def test_a_failure_is_counted_and_named():
    reader = fuzz.Reader("broken", lambda data: 1 / 0, [b"seed"])
    row = fuzz._fuzz(reader, 20)
    assert row["failed"] == row["inputs"] > 0 and "ZeroDivisionError: division by zero" in row["failures"]


def test_a_reader_is_fed_no_longer_than_asked():
    row = fuzz._fuzz(fuzz.Reader("quick", lambda data: data, [b"seed"]), 1_000_000, seconds=0.2)
    assert 0 < row["inputs"] < 1_000_000 and row["failed"] == 0


@pytest.mark.parametrize("limit", ["SLOWEST", "STUCK"])
def test_one_slow_input_is_a_failure(monkeypatch, limit):
    monkeypatch.setattr(fuzz, limit, -1.0)
    assert fuzz._fuzz(fuzz.Reader("slow", lambda data: data, [b"seed"]), 5)["failed"] == 1
