"""l_PMSACL against Eqs. 4 to 7, and its gradients."""

import pytest
import torch

from core.engine.losses import reference
from core.engine.losses.pmsacl import PMSACLLoss, kappa, loss_of_a_constant, nt_xent, pmsacl_loss, supcon_loss
from core.engine.losses.reference import l_pmsacl, supcon


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


def test_gradient_reaches_features_and_not_centres(sample):
    z, labels, partners, centres = sample
    z, centres = z.clone().requires_grad_(), centres.clone().requires_grad_()
    pmsacl_loss(z, labels, partners, centres).backward()
    assert (z.grad.abs().sum(1) > 0).all()
    assert centres.grad is None


def test_it_is_float32_whatever_the_features(sample):
    z, labels, partners, centres = sample
    z = z.bfloat16()
    assert pmsacl_loss(z, labels, partners, centres).dtype == torch.float32


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
    with pytest.raises(ValueError, match="must be above 0|is one of"):
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


def test_gradient_is_finite_and_reaches_every_sample(sample):
    z, _, partners, _ = sample
    z = z.clone().requires_grad_()
    nt_xent(z, partners).backward()
    assert z.grad.isfinite().all() and (z.grad.abs().sum(1) > 0).all()


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
