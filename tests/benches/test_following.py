"""The short form of the bench of what an open page asks: that its figures come, whatever they are."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.benches import following


@pytest.mark.longest
def test_the_figures_come():
    with ThreadPoolExecutor(1) as thread:  # the main one may have a browser's loop already
        found = thread.submit(following.following, quick=True).result()
    assert found["idle"].keys() == found["training"].keys() == set(following.TABS)
    assert 0 < found["shows_ms"]["p50"] <= found["shows_ms"]["most"]
