"""MS-SSIM against an independent implementation."""

import pytest
import torch
from pytorch_msssim import ms_ssim as reference

from core.engine.losses.ms_ssim import WEIGHTS, dissimilarity_map, fit_levels, ms_ssim

LOCAL = (0.0516, 0.3295, 0.3463, 0.2726)


def pair(size, b=3):
    draw = torch.Generator().manual_seed(size)
    smooth = torch.nn.functional.interpolate(
        torch.rand(b, 3, size // 8, size // 8, generator=draw), size, mode="bilinear"
    )
    noise = torch.rand(b, 3, size, size, generator=draw)
    return smooth, (0.8 * smooth + 0.2 * noise)


@pytest.mark.parametrize(
    ("size", "window", "weights", "span"),
    [(192, 11, WEIGHTS, 1.0), (64, 3, LOCAL, 1.0), (48, 3, LOCAL, 4.7579), (96, 5, (0.2, 0.5, 0.3), 1.0)],
)
def test_against_pytorch_msssim(size, window, weights, span):
    x, y = pair(size)
    got = ms_ssim(x * span, y * span, data_range=span, window=window, weights=weights)
    expected = reference(
        x * span, y * span, data_range=span, size_average=False, win_size=window, win_sigma=1.5, weights=list(weights)
    )
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    assert (got < 0.99).all()


def test_an_image_is_like_itself():
    x, y = pair(64)
    assert torch.allclose(ms_ssim(x, x, weights=fit_levels(64, 11, WEIGHTS)), torch.ones(3), atol=1e-5)
    assert dissimilarity_map(x, x, weights=fit_levels(64, 11, WEIGHTS)).abs().max() < 1e-4


def test_gradient_is_finite_where_nothing_is_alike():
    """Negative structure is floored; a power under 1 must not make its gradient infinite."""
    x = pair(64)[0]
    y = (1 - x).requires_grad_()
    ms_ssim(x, y, window=3, weights=LOCAL).sum().backward()
    assert y.grad.isfinite().all()


def test_map_points_at_the_difference():
    x = pair(64, 1)[0]
    y = x.clone()
    y[:, :, 40:52, 8:20] = torch.rand(1, 3, 12, 12, generator=torch.Generator().manual_seed(1))
    heat = dissimilarity_map(x, y, weights=fit_levels(64, 11, WEIGHTS))
    assert heat.shape == (1, 64, 64)
    inside, outside = heat[0, 42:50, 10:18].mean(), heat[0, :24, 36:].mean()
    assert inside > 20 * outside


@pytest.mark.parametrize(("size", "levels"), [(256, 5), (176, 5), (175, 4), (96, 4), (64, 3), (11, 1)])
def test_levels_that_fit(size, levels):
    fitted = fit_levels(size, 11, WEIGHTS)
    assert len(fitted) == levels
    assert sum(fitted) == pytest.approx(sum(WEIGHTS))
    assert ms_ssim(torch.rand(1, 3, size, size), torch.rand(1, 3, size, size), weights=fitted).isfinite().all()


def test_a_window_too_large_is_named():
    with pytest.raises(ValueError, match="does not fit"):
        fit_levels(8, 11, WEIGHTS)
