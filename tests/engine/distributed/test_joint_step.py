"""Two processes that share a batch do what one process does with all of it."""

from __future__ import annotations

import numpy as np
import pytest

from core.engine import processes
from tests.engine.distributed import work
from tests.engine.distributed.group import demand_close, together

NAMES = list(work.SETTINGS)


@pytest.fixture(scope="module")
def joint():
    return together(work.steps, NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_two_are_those_of_one_with_the_joint_batch(joint, name):
    alone = work.steps([name])[name]
    for other in (joint[0][name], joint[1][name]):
        assert other["losses"] == pytest.approx(alone["losses"], abs=1e-5, rel=1e-5)
        demand_close(other["gradients"], alone["gradients"])
        if alone["centres"] is not None:
            np.testing.assert_allclose(other["centres"], alone["centres"], atol=1e-5)


@pytest.mark.slow
def test_both_processes_hold_the_same_statistics_and_gradients(joint):
    one, two = (of["pmsacl"] for of in joint)
    for what in ("gradients", "statistics"):
        assert all(np.array_equal(one[what][key], two[what][key]) for key in one[what])


def normal_of_mine(parts):
    return work.normalised(parts, processes.rank())


@pytest.mark.long
def test_batch_norm_of_uneven_parts_is_that_of_the_whole():
    x = np.random.default_rng(0).normal(100, 5, (5, 3, 4, 4)).astype(np.float32)
    parts = [x[:2], x[2:]]
    found = together(normal_of_mine, parts)
    whole = work.normalised([x], 0)
    for of, atol in ((0, 1e-4), (1, 1e-4)):
        np.testing.assert_allclose(np.concatenate([f[of] for f in found]), whole[of], atol=atol)
    for of in (2, 3):
        np.testing.assert_allclose(found[0][of], whole[of], rtol=1e-5)
        np.testing.assert_array_equal(found[0][of], found[1][of])


def test_a_batch_that_cannot_be_shared_is_refused(monkeypatch):
    monkeypatch.setattr(processes, "world", lambda: 3)
    with pytest.raises(ValueError, match="4 images is not shared evenly by 3 processes"):
        work.training_of("simclr")
