"""The lesion head's bench: scoring costs no multiple of the pass that it contains."""

import pytest

from tests.benches import scoring


@pytest.mark.slow
def test_score():
    row = scoring.lesion_score(quick=True, device="cpu")
    assert 0.3 < row["ratio"] < 5  # the aim is 1.5 at 256 px on idle cores; a shared machine is noisier
    assert row["images_per_second"] > 0
