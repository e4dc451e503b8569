"""The short form of the bench of the reading room: that its figures come, whatever they are."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.benches import reading


@pytest.mark.longest
def test_the_figures_come():
    with ThreadPoolExecutor(1) as thread:  # the main one may have a browser's loop already
        found = thread.submit(reading.reading, quick=True).result()
    for when, aims in reading.AIMS.items():
        for what in aims:
            figures = found[when][what]
            assert 0 < figures["p50"] <= figures["p95"] <= figures["most"], (when, what)
    assert found["status"] == "queued" and found["ratio"] > 0
