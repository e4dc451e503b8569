"""Centred features against Eq. 6 row by row, for tensors and for arrays."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from core.engine.losses.centred import centred
from core.engine.losses.reference import f


def slow(z, labels, centres):
    return [f(z_i, centres[n]) for z_i, n in zip(z, labels, strict=True)]


def test_tensors_and_arrays_are_the_equation(sample):
    z, labels, _, centres = sample
    found = centred(z, labels, centres)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, slow(z, labels, centres), rtol=1e-5, atol=1e-6)
    arrays = centred(z.numpy(), labels.numpy(), centres.numpy())
    assert arrays.dtype == np.float32
    np.testing.assert_allclose(arrays, slow(z, labels, centres), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(arrays, axis=1), 1, rtol=1e-6)


def test_a_feature_at_its_centre_is_zero_and_has_finite_gradients(sample):
    z, labels, _, centres = sample
    z = z.clone()
    z[3] = centres[labels[3]]
    z.requires_grad_()
    found = centred(z, labels, centres)
    assert (found[3] == 0).all()
    found.square().sum().backward()
    assert z.grad.isfinite().all()


def test_a_class_without_a_centre_is_refused():
    with pytest.raises(IndexError):
        centred(np.zeros((2, 3)), np.array([0, 4]), np.ones((4, 3)))


def test_arrays_are_centred_without_torch():
    code = "import sys, core.engine.losses.centred; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
