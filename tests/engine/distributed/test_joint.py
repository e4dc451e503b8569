"""Two processes that share a batch do what one process does with all of it."""

import numpy as np
import pytest

from core.engine import processes
from tests.engine.distributed import work
from tests.engine.distributed.group import WORLD, together

NAMES = list(work.SETTINGS)


@pytest.fixture(scope="module")
def of_two():
    return together(work.steps, NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_joint_step_gradients_of_two_processes(of_two, name):
    """They equal to 1e-5 of the largest those of one process with the views of both."""
    alone = work.step_alone(name, WORLD)
    for other in (of_two[0][name], of_two[1][name]):
        assert other["loss"] == pytest.approx(alone["loss"], abs=1e-5, rel=1e-5)
        expected, gradients = alone["gradients"], other["gradients"]
        assert gradients.keys() == expected.keys() and len(gradients) > 10
        close = 1e-5 * max(float(np.abs(g).max()) for g in expected.values())
        for key, gradient in expected.items():
            np.testing.assert_allclose(gradients[key], gradient, rtol=0, atol=close, err_msg=key)
        if alone["centres"] is not None:
            np.testing.assert_allclose(other["centres"], alone["centres"], atol=1e-5)
    one, two = (of[name]["gradients"] for of in of_two)
    assert all(np.array_equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("world", [3, 4])
def test_rows_of_process_uneven_or_single_images(monkeypatch, world):
    monkeypatch.setattr(processes, "world", lambda: world)
    with pytest.raises(ValueError, match=f"4 images cannot be shared by {world} processes: change the batch"):
        work.training_of("simclr")
