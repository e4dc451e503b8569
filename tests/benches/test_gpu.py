"""The bench of a GPU: refused without one; its small form, on any device, has every figure."""

import pytest
import torch

from tests.benches import steps


@pytest.mark.long
def test_the_small_form_has_every_figure():
    found = steps.gpu(quick=True, device="cpu")
    assert found["ratio"] == pytest.approx(found["training_images_per_second"] / found["bare_images_per_second"])
    assert found["padim_images_per_second"] > 0 and found["device"] == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    with pytest.raises(ValueError, match="there is none here"):
        steps.gpu()
