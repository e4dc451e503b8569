"""The house in figures: its size is that of the files, each way is walked, and the page starts."""

from pathlib import Path

import pytest

from tests.benches.house import ROOT, house


@pytest.mark.longest
def test_each_figure_is_counted():
    figures = house(quick=True)["here"]
    assert figures["size"]["product"]["lines"] > len(Path(__file__).read_text("utf-8").splitlines())
    assert figures["size"]["product"]["files"] <= len([*ROOT.glob("app/**/*.py"), *ROOT.glob("core/**/*.py")]) + 1
    walks = figures["walks"]
    assert set(walks) == {"minibatch", "image", "decision"} and all(walk["functions"] > 20 for walk in walks.values())
    assert walks["minibatch"]["statements"] == 0 and 0 < walks["decision"]["statements"] <= 25
    assert figures["start_seconds"] > 0
