"""The bench of a pre-training step measures what it says."""

import pytest

from tests.benches import steps


@pytest.mark.long
def test_both_steps_see_as_many_images():
    found = steps.pretrain(quick=True, device="cpu")
    # Of four images four classes each: two weak views, and, as `paper` has it, the strong image by itself.
    assert found["images_per_step"] == 4 * 4 * 3 and found["size"] == 128
    assert found["ratio"] == found["seconds"]["pmsacl"] / found["seconds"]["bare"] > 0.4  # a shared machine is noisy
