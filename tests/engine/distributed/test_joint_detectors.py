"""Lesion head and IGD trained by two processes that share a batch: what one process does with all of it."""

from __future__ import annotations

import pytest

from core.engine import processes
from tests.engine.distributed import work
from tests.engine.distributed.group import demand_close, together


@pytest.fixture(scope="module")
def joint():
    return together(work.detector_steps, work.DETECTORS)


@pytest.mark.slow
@pytest.mark.parametrize("name", work.DETECTORS)
def test_gradients_of_two_are_those_of_one_with_the_joint_batch(joint, name):
    losses, gradients = work.detector_step(name, False)
    for other_losses, other in (joint[0][name], joint[1][name]):
        assert other_losses == pytest.approx(losses, abs=1e-5, rel=1e-5) and losses[0] != losses[1]
        assert any(key.startswith("critic") for key in other) == ("igd" in name)
        demand_close(other, gradients)


@pytest.mark.parametrize("name", ["lesion-head frozen", "igd global"])
def test_a_batch_that_cannot_be_shared_is_refused(monkeypatch, name):
    monkeypatch.setattr(processes, "world", lambda: 3)
    with pytest.raises(ValueError, match="4 images is not shared evenly by 3 processes"):
        work.detector_training(name, True)
    assert work.detector_training(name, False).group.world == 1, "each for itself, where nothing is shared"
