"""One Gaussian per position: against plain NumPy, whatever the batches, the offsets and the grids."""

import numpy as np
import pytest
import torch

from core.engine.detectors import gaussian as cholesky
from core.engine.detectors.gaussian import Gaussian, Moments, Pyramid, inverse_cholesky
from core.engine.detectors.reference import joined, s_padim

NESTED = [(8, 12), (4, 6), (2, 3)]
ODD = [(9, 9), (5, 5), (3, 3)]  # what a ResNet makes of 36 pixels: no grid divides the next


def features(grids, n, seed=0, channels=(7, 11, 13), offset=0.0):
    """Maps (n, c, h, w), fine to coarse, whose channels are correlated and differ by position."""
    draw = torch.Generator().manual_seed(seed)
    base = torch.Generator().manual_seed(99)
    maps = []
    for c, (h, w) in zip(channels, grids, strict=True):
        blend = torch.randn(c, c, generator=base)
        place = torch.randn(1, c, h, w, generator=base) + offset
        maps.append(torch.einsum("ij,njhw->nihw", blend, torch.randn(n, c, h, w, generator=draw)) + place)
    return maps


def by_hand(train, test, epsilon):
    return s_padim(joined(train), joined(test), epsilon)


def fitted(maps, epsilon, batch):
    moments = Moments()
    for i in range(0, len(maps[0]), batch):
        moments.add([m[i : i + batch] for m in maps])
    return moments.finish(epsilon)


@pytest.mark.parametrize("grids", [NESTED, ODD])
@pytest.mark.parametrize("batch", [5, 40])
def test_distance_is_numpys_mahalanobis(grids, batch):
    train, test = features(grids, 40), features(grids, 3, seed=1)
    expected = by_hand(train, test, 0.01)
    got = fitted(train, 0.01, batch).distance(test).numpy()
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=2e-3)


@pytest.mark.parametrize("grids", [NESTED, ODD])
def test_means_and_variances_of_the_coarsest_cells_are_numpys(grids):
    train = features(grids, 40)
    gaussian = fitted(train, 0.01, 7)
    mean, variance = (x.numpy() for x in gaussian.coarsest())
    height, width = gaussian.pyramid.grids[0]
    rows = np.arange(height) * grids[-1][0] // height, np.arange(width) * grids[-1][1] // width
    cells = train[-1].numpy()[:, :, rows[0]][:, :, :, rows[1]].transpose(2, 3, 0, 1).reshape(height * width, 40, -1)
    np.testing.assert_allclose(mean, cells.mean(1), atol=1e-4)
    np.testing.assert_allclose(variance, cells.var(1, ddof=1) + 0.01, rtol=1e-3)


def test_features_far_from_zero_lose_nothing():
    """Sums of squares at an offset of 1,000 leave float32 no digits; centred ones keep them."""
    train, test = features(NESTED, 60, offset=1000.0), features(NESTED, 2, seed=1, offset=1000.0)
    got = fitted(train, 0.01, 7).distance(test).numpy()
    np.testing.assert_allclose(got, by_hand(train, test, 0.01), rtol=5e-3)


def test_fewer_images_than_channels():
    """The covariance is then singular, and epsilon alone makes it invertible."""
    train, test = features(NESTED, 6), features(NESTED, 2, seed=1)
    np.testing.assert_allclose(fitted(train, 0.01, 4).distance(test).numpy(), by_hand(train, test, 0.01), rtol=5e-3)


def test_shared_blocks_are_kept_once():
    """8 x 12 cells of 31 channels would take 8 * 12 * 31 * 31 numbers as full matrices."""
    gaussian: Gaussian = fitted(features(NESTED, 10), 0.01, 10)
    kept = sum(level.own.numel() + level.cross.numel() for level in gaussian.levels)
    assert kept == 96 * 7 * 31 + 24 * 11 * 24 + 6 * 13 * 13
    assert kept < 0.4 * 96 * 31 * 31


def test_nested_order_and_back():
    maps = [torch.arange(2 * h * w, dtype=torch.float32).view(2, 1, h, w) for h, w in NESTED]
    pyramid = Pyramid.of(maps)
    assert pyramid.grids == tuple(reversed(NESTED))
    fine = pyramid.cells(maps)[-1]
    assert torch.equal(pyramid.plane(fine[:, :, 0]), maps[0][:, 0])
    assert fine[:4, 0, 0].tolist() == [0, 1, 12, 13]  # the children of one cell lie side by side


def test_one_image_is_too_few():
    moments = Moments()
    moments.add(features(NESTED, 1))
    with pytest.raises(ValueError, match="at least 2"):
        moments.finish()


@pytest.mark.parametrize("n", [1, 5, cholesky.BASE, cholesky.BASE + 1, 57, 100])
def test_inverse_cholesky_against_lapack(n):
    x = torch.randn(6, n, 2 * n, generator=torch.Generator().manual_seed(n))
    a = x @ x.transpose(1, 2) / (2 * n) + 0.01 * torch.eye(n)
    got = inverse_cholesky(a)
    expected = torch.linalg.inv(torch.linalg.cholesky(a.double()))
    torch.testing.assert_close(got.double(), expected, rtol=1e-3, atol=1e-3)
    assert torch.equal(got, got.tril())


def test_what_float32_cannot_do_is_done_in_float64():
    x = torch.randn(3, 20, 4, generator=torch.Generator().manual_seed(0)).double()
    a = (x @ x.transpose(1, 2) * 1e4 + 1e-3 * torch.eye(20)).float()
    a[0] = torch.eye(20) * 4
    # Rounding a singular matrix to float32 may leave it indefinite; lift it by just enough for float64.
    lowest = torch.linalg.eigvalsh(a.double()).min(1).values.clamp(max=0)
    a += (1e-6 - 2 * lowest)[:, None, None].float() * torch.eye(20)
    got = inverse_cholesky(a).double()
    assert got.isfinite().all()
    torch.testing.assert_close(got[0], torch.eye(20).double() / 2)


def test_an_indefinite_matrix_is_refused():
    with pytest.raises(ValueError, match="positive definite"):
        inverse_cholesky(-torch.eye(4)[None])
