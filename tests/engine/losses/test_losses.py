"""The losses against slow loops written from the equations, and their gradients."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from core.engine.losses import reference
from core.engine.losses.centred import centred
from core.engine.losses.pmsacl import (
    EPSILON,
    PMSACLLoss,
    augmentation_loss,
    centring_loss,
    kappa,
    loss_of_a_constant,
    nt_xent,
    pmsacl_loss,
    position_loss,
    supcon_loss,
    variance_loss,
)
from core.engine.losses.reference import cross_entropy, f, l_ctr, l_pmsacl, l_var, supcon

LOSSES = {
    "l_ctr": lambda z, labels, partners, centres: centring_loss(z, labels, centres),
    "l_con": pmsacl_loss,
    "nt_xent": lambda z, labels, partners, centres: nt_xent(z, partners),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_gradient_reaches_every_feature_and_no_centre(sample, loss):
    z, labels, partners, centres = sample
    z, centres = z.clone().requires_grad_(), centres.clone().requires_grad_()
    loss(z, labels, partners, centres).backward()
    assert z.grad.isfinite().all() and (z.grad.abs().sum(1) > 0).all() and centres.grad is None


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_it_is_float32_whatever_the_features(sample, loss):
    z, *others = sample
    assert loss(z.bfloat16(), *others).dtype == torch.float32


def test_centring_is_the_equation(sample):
    z, labels, _, centres = sample
    assert float(centring_loss(z, labels, centres)) == pytest.approx(l_ctr(z, labels, centres), rel=1e-5)


@pytest.mark.parametrize(("loss", "classes"), [(augmentation_loss, 4), (position_loss, 8)])
def test_cross_entropies_are_the_equation(loss, classes):
    logits = torch.randn(10, classes, generator=torch.Generator().manual_seed(2))
    labels = torch.arange(10) % classes
    assert float(loss(logits, labels)) == pytest.approx(cross_entropy(logits, labels), rel=1e-5)
    assert loss(logits.bfloat16(), labels).dtype == torch.float32


@pytest.mark.parametrize(("tau", "alpha"), [(0.2, 2.0), (0.5, 1.0), (0.1, 0.5)])
def test_pmsacl_is_the_equation(sample, tau, alpha):
    assert float(pmsacl_loss(*sample, tau, alpha)) == pytest.approx(l_pmsacl(*sample, tau, alpha), rel=1e-5)


@pytest.mark.parametrize("centring", ["both", "denominator"])
def test_what_is_not_the_papers_is_its_own_loop(sample, centring):
    """Positives of the class, and a numerator that is not centred."""
    z, labels, partners, centres = sample
    own = z - (centres[labels] if centring == "both" else 0)
    total = 0.0
    for i in range(len(z)):
        same = [j for j in range(len(z)) if labels[j] == labels[i] and j not in (i, int(partners[i]))]
        cosines = [torch.cosine_similarity(own[i], own[j], dim=0) for j in same]
        plain = torch.cosine_similarity(own[i], own[partners[i]], dim=0)
        total += float(sum(cosines) / len(cosines) - plain) / 0.2
    kinds = {"centring": centring}
    shift = float(pmsacl_loss(*sample, **kinds) - pmsacl_loss(*sample, positives="class", **kinds))
    assert shift == pytest.approx(total / len(z), rel=1e-4)
    alone = z[:2], torch.tensor([1, 1]), torch.tensor([1, 0]), centres  # no other image of the class: the other view
    assert pmsacl_loss(*alone, positives="class", **kinds) == pmsacl_loss(*alone, **kinds)
    if centring == "denominator":
        plain = torch.stack([torch.cosine_similarity(z[i], z[partners[i]], dim=0) for i in range(len(z))])
        d = z - centres[labels]
        centred = torch.stack([torch.cosine_similarity(d[i], d[partners[i]], dim=0) for i in range(len(z))])
        moved = float(pmsacl_loss(*sample) - pmsacl_loss(*sample, **kinds))
        assert moved == pytest.approx(float((plain - centred).mean()) / 0.2, rel=1e-4)


def test_pmsacl_positive_stays_in_the_denominator(sample):
    """Only two views of one image: the sum holds the positive alone, at 1/(alpha tau), and the loss is negative."""
    z, centres = sample[0][:1].repeat(2, 1), sample[3]
    loss = pmsacl_loss(z, torch.tensor([1, 1]), torch.tensor([1, 0]), centres, tau=0.2, alpha=2.0)
    assert float(loss) == pytest.approx(1 / 0.4 - 1 / 0.2)


def test_kappa_repels_less_within_a_class_when_alpha_is_above_one():
    k = kappa(torch.tensor([0, 0, 1]), tau=0.2, alpha=2.0)
    assert torch.allclose(k, torch.tensor([[2.5, 2.5, 5.0], [2.5, 2.5, 5.0], [5.0, 5.0, 2.5]]))


@pytest.mark.parametrize("centring", ["both", "denominator"])
@pytest.mark.parametrize("positives", ["view", "class"])
def test_the_loss_of_one_constant_is_that_of_the_same_feature_for_all(sample, centring, positives):
    z, labels, partners, centres = sample
    feature = z.mean(0)
    plain = pmsacl_loss(
        feature.expand_as(z), labels, partners, centres, 0.3, 1.5, centring=centring, positives=positives
    )
    assert float(loss_of_a_constant(feature, labels, centres, 0.3, 1.5)) == pytest.approx(float(plain), rel=1e-5)
    # classes that no sample has do not count
    first = pmsacl_loss(feature.expand(2, -1), labels[:1].repeat(2), torch.tensor([1, 0]), centres, 0.3, 1.5)
    assert float(loss_of_a_constant(feature, labels[:1].repeat(2), centres, 0.3, 1.5)) == pytest.approx(
        float(first), rel=1e-5
    )


@pytest.mark.parametrize(
    "changes",
    [{"tau": 0.0}, {"tau": -1.0}, {"tau": float("nan")}, {"alpha": 0.0}, {"alpha": float("inf")},
     {"centring": "none"}, {"positives": "all"}],
)  # fmt: skip
def test_pmsacl_loss_refuses_values_that_cannot_be(changes):
    z, labels, partners, centres = (
        torch.randn(4, 8),
        torch.tensor([0, 1, 0, 1]),
        torch.tensor([2, 3, 0, 1]),
        torch.zeros(2, 8),
    )
    with pytest.raises(ValueError, match="must be above 0|must be in"):
        pmsacl_loss(z, labels, partners, centres, **changes)
    if changes.keys() <= {"tau", "alpha"}:
        with pytest.raises(ValueError, match="must be above 0"):
            PMSACLLoss(centres, **changes)


@pytest.mark.parametrize("wrong", range(4))
def test_pmsacl_loss_refuses_tensors_that_do_not_agree(wrong):
    right = [torch.randn(4, 8), torch.tensor([0, 1, 0, 1]), torch.tensor([2, 3, 0, 1]), torch.zeros(2, 8)]
    bad = [torch.randn(4, 7), torch.tensor([0, 1]), torch.tensor([2, 3, 0]), torch.zeros(2, 9)]
    with pytest.raises(ValueError, match="centres \\(k\\+1, D\\)"):
        pmsacl_loss(*right[:wrong], bad[wrong], *right[wrong + 1 :])


@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_nt_xent_is_the_equation(sample, tau):
    z, _, partners, _ = sample
    assert float(nt_xent(z, partners, tau)) == pytest.approx(reference.nt_xent(z, partners, tau), rel=1e-5)


def test_two_views_alone_cost_nothing():
    """The positive is the whole denominator."""
    assert float(nt_xent(torch.randn(2, 5), torch.tensor([1, 0]))) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_supcon_is_the_equation(sample, tau):
    z, labels, _, _ = sample
    assert float(supcon_loss(z, labels, tau)) == pytest.approx(supcon(z, labels, tau), rel=1e-5)


def test_with_pairs_alone_it_is_the_plain_contrastive_loss(sample):
    """Labels that two views of one image share and no other sample: one positive each."""
    z, _, partners, _ = sample
    pairs = torch.arange(len(z) // 2).repeat(2)
    assert float(supcon_loss(z, pairs)) == pytest.approx(float(nt_xent(z, partners)), rel=1e-5)


def test_a_label_that_stands_alone_adds_nothing_and_no_nan():
    z = torch.randn(3, 4, requires_grad=True)
    loss = supcon_loss(z, torch.tensor([0, 1, 2]))
    loss.backward()
    assert float(loss.detach()) == 0 and z.grad.isfinite().all()


def test_it_is_the_mean_hinge_of_each_class(sample):
    z, labels = sample[0], sample[1].clone()
    labels[0], labels[1:][labels[1:] == 0] = 0, 2  # a class of one sample
    assert float(variance_loss(z, labels)) == pytest.approx(l_var(z, labels, EPSILON), rel=1e-5)


def test_one_constant_lowers_l_pmsacl_and_not_l_var(sample):
    z, labels, partners, centres = sample
    constant = z.mean(0).expand_as(z)
    assert pmsacl_loss(constant, labels, partners, centres) < pmsacl_loss(z, labels, partners, centres)
    assert float(variance_loss(constant, labels)) == pytest.approx(1 - EPSILON**0.5, abs=1e-3)
    far = centres[labels] * 10  # nor does a constant of each class
    assert float(variance_loss(far, labels)) == pytest.approx(1 - EPSILON**0.5, abs=1e-3)


def test_directions_drawn_uniformly_pay_almost_nothing_and_the_gradient_spreads():
    draws = torch.Generator().manual_seed(0)
    z, labels = torch.randn(4000, 16, generator=draws), torch.arange(4000) % 4
    assert variance_loss(z, labels) < 0.02
    near = (torch.ones(64, 16) + 0.05 * torch.randn(64, 16, generator=draws)).requires_grad_()
    before = variance_loss(near, labels[:64])
    before.backward()
    after = variance_loss(near.detach() - 10 * near.grad, labels[:64])
    assert after < before


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


def test_a_feature_at_its_centre_is_zero_and_has_no_gradient(sample):
    z, labels, _, centres = sample
    z = z.clone()
    z[3] = centres[labels[3]]
    z.requires_grad_()
    found = centred(z, labels, centres)
    assert (found[3] == 0).all()
    found.sum().backward()
    assert z.grad.isfinite().all() and (z.grad[3] == 0).all()


def test_a_class_without_a_centre_is_refused():
    with pytest.raises(IndexError):
        centred(np.zeros((2, 3)), np.array([0, 4]), np.ones((4, 3)))


def test_arrays_are_centred_without_torch():
    code = "import sys, core.engine.losses.centred; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
