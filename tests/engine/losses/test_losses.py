"""Each loss against a slow loop written from the paper's equation, and its gradients."""

from __future__ import annotations

import math

import pytest
import torch

from core.engine.losses.centring import centring_loss
from core.engine.losses.classify import augmentation_loss
from core.engine.losses.contrastive import centred, kappa, pmsacl_loss
from core.engine.losses.position import NEIGHBOURS, cut, draw_corners, position_loss

CLASSES, IMAGES, DIM = 4, 3, 6


@pytest.fixture
def sample():
    """z (M, D), labels, partners as PMSACL lays them out, and centres."""
    draws = torch.Generator().manual_seed(1)
    count = IMAGES * CLASSES
    z = torch.randn(2 * count, DIM, generator=draws)
    labels = torch.arange(CLASSES).repeat(IMAGES).repeat(2)
    partners = torch.arange(2 * count).roll(count)
    return z, labels, partners, torch.randn(CLASSES, DIM, generator=draws)


def slow_pmsacl(z, labels, partners, centres, tau, alpha):
    """Eqs. 4 to 7, term by term."""

    def f(i):
        d = [float(a) - float(c) for a, c in zip(z[i], centres[labels[i]], strict=True)]
        norm = math.sqrt(sum(v * v for v in d))
        return [v / norm for v in d]

    def dot(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True))

    total = 0.0
    for i in range(len(z)):
        numerator = math.exp(dot(f(i), f(int(partners[i]))) / tau)
        denominator = 0.0
        for j in range(len(z)):
            if j == i:  # the indicator drops the sample itself, and nothing else
                continue
            k = 1 / (alpha * tau) if labels[i] == labels[j] else 1 / tau
            denominator += math.exp(k * dot(f(i), f(j)))
        total += -math.log(numerator / denominator)
    return total / len(z)


@pytest.mark.parametrize(("tau", "alpha"), [(0.2, 2.0), (0.5, 1.0), (0.1, 0.5)])
def test_pmsacl_is_the_equation(sample, tau, alpha):
    assert float(pmsacl_loss(*sample, tau, alpha)) == pytest.approx(slow_pmsacl(*sample, tau, alpha), rel=1e-5)


def test_pmsacl_positive_stays_in_the_denominator(sample):
    """Only two views of one image: the sum holds the positive alone, at 1/(alpha tau), and the loss is negative."""
    z, centres = sample[0][:1].repeat(2, 1), sample[3]
    loss = pmsacl_loss(z, torch.tensor([1, 1]), torch.tensor([1, 0]), centres, tau=0.2, alpha=2.0)
    assert float(loss) == pytest.approx(1 / 0.4 - 1 / 0.2)


def test_kappa_repels_less_within_a_class_when_alpha_is_above_one():
    k = kappa(torch.tensor([0, 0, 1]), tau=0.2, alpha=2.0)
    assert torch.allclose(k, torch.tensor([[2.5, 2.5, 5.0], [2.5, 2.5, 5.0], [5.0, 5.0, 2.5]]))


def test_centred_has_unit_length_and_takes_each_its_own_centre(sample):
    z, labels, _, centres = sample
    f = centred(z, labels, centres)
    assert torch.allclose(f.norm(dim=1), torch.ones(len(z)))
    one = z[5] - centres[labels[5]]
    assert torch.allclose(f[5], one / one.norm(), atol=1e-6)


def test_centring_is_the_equation(sample):
    z, labels, _, centres = sample
    slow = sum(
        sum((float(z[i, d]) - float(centres[labels[i], d])) ** 2 for d in range(DIM)) for i in range(len(z))
    ) / len(z)
    assert float(centring_loss(z, labels, centres)) == pytest.approx(slow, rel=1e-5)


def slow_cross_entropy(logits, labels):
    total = 0.0
    for row, n in zip(logits.tolist(), labels.tolist(), strict=True):
        total += -math.log(math.exp(row[n]) / sum(math.exp(v) for v in row))
    return total / len(labels)


@pytest.mark.parametrize(("loss", "classes"), [(augmentation_loss, 4), (position_loss, 8)])
def test_classifications_are_the_equation(loss, classes):
    logits = torch.randn(10, classes, generator=torch.Generator().manual_seed(2))
    labels = torch.arange(10) % classes
    assert float(loss(logits, labels)) == pytest.approx(slow_cross_entropy(logits, labels), rel=1e-5)


@pytest.mark.parametrize("loss", ["centring", "pmsacl"])
def test_gradient_reaches_features_and_not_centres(sample, loss):
    z, labels, partners, centres = sample
    z, centres = z.clone().requires_grad_(), centres.clone().requires_grad_()
    value = centring_loss(z, labels, centres) if loss == "centring" else pmsacl_loss(z, labels, partners, centres)
    value.backward()
    assert (z.grad.abs().sum(1) > 0).all()
    assert centres.grad is None


def test_losses_are_float32_whatever_the_features(sample):
    z, labels, partners, centres = sample
    for value in (centring_loss(z.bfloat16(), labels, centres), pmsacl_loss(z.bfloat16(), labels, partners, centres)):
        assert value.dtype == torch.float32


@pytest.mark.parametrize("side", [64, 100])
def test_pairs_are_neighbours_inside_the_image(side):
    """Without jitter the second patch lies exactly one patch away, in the direction its class says."""
    first, second, places = draw_corners(200, side, 32, 0, torch.Generator().manual_seed(3))
    assert torch.equal((second - first) // 32, torch.tensor(NEIGHBOURS)[places])
    assert torch.equal((second - first) % 32, torch.zeros(200, 2, dtype=torch.long))
    for corners in (first, second):
        assert corners.min() >= 0 and corners.max() <= side - 32
    assert places.unique().tolist() == list(range(8))


def test_jitter_moves_pairs_but_not_out_of_the_image():
    first, second, places = draw_corners(200, 128, 32, 8, torch.Generator().manual_seed(3))
    off = second - first - torch.tensor(NEIGHBOURS)[places] * 32
    assert off.abs().max() > 0 and off.abs().max() <= 16
    assert min(first.min(), second.min()) >= 0 and max(first.max(), second.max()) <= 96


def test_patches_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="do not fit side by side"):
        draw_corners(2, 48, 32, 0, torch.Generator())


def test_cut_is_a_slice():
    images = torch.rand(2, 3, 40, 40)
    got = cut(images, torch.tensor([[3, 5], [8, 0]]), 32)
    assert torch.equal(got[0], images[0, :, 3:35, 5:37]) and torch.equal(got[1], images[1, :, 8:40, 0:32])
