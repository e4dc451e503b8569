"""The paper's other objectives against their equations; and what every registered objective must do."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from core.engine.config import BadConfig
from core.engine.losses import reference
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.objectives.views import NEIGHBOURS
from core.engine.registry import OBJECTIVES
from core.engine.training.base import STEP, generator
from core.engine.training.pretrain import pretrain
from tests.engine._images import normals
from tests.engine.objectives.build import STILL, build, images, outcome_of
from tests.engine.training.tiny import TINY


def test_two_weak_views_of_each_image_and_one_class():
    objective, encoder = build("simclr", weak=STILL.to_dict())
    x = images()
    views, _, _, outcome = outcome_of(objective, encoder, x)
    assert torch.allclose(views.images, torch.cat([x, x]), atol=1e-5)
    assert views.partners.tolist() == [3, 4, 5, 0, 1, 2] and not views.labels.any()
    assert objective.classes == 1 and outcome.logits is None


def test_simclrs_loss_is_the_equation():
    objective, encoder = build("simclr", tau=0.5, w_con=2.0)
    views, _, z, outcome = outcome_of(objective, encoder)
    assert outcome.loss.item() == pytest.approx(2 * reference.nt_xent(z.detach(), views.partners, 0.5), rel=1e-4)


def test_it_sees_what_pmsacl_sees():
    ours, pmsacl = (build(name)[0].views(images(), generator(3, STEP)) for name in ("supcon", "pmsacl"))
    assert torch.equal(ours.images, pmsacl.images) and torch.equal(ours.labels, pmsacl.labels)


def test_supcons_loss_is_the_equation():
    objective, encoder = build("supcon", tau=0.5)
    views, _, z, outcome = outcome_of(objective, encoder)
    assert outcome.loss.item() == pytest.approx(reference.supcon(z.detach(), views.labels, 0.5), rel=1e-4)
    assert outcome.terms.keys() == {"l_con"}


@pytest.mark.parametrize("strong", ["permutation", "medmix"])
def test_its_loss_is_the_sum_of_three(strong):
    objective, encoder = build("ccd", strong=strong, w_pos=0.5)
    views, h, z, outcome = outcome_of(objective, encoder)
    count = len(views.labels)
    assert count == 18 and len(views.images) == 18 + 6
    contrast = reference.nt_xent(z[:count].detach(), views.partners, 0.2)
    classes = reference.cross_entropy(objective.classify(h[:count], z[:count]), views.labels)
    pairs = torch.stack([torch.cat([z[count + i], z[count + 3 + i]]) for i in range(3)])
    places = reference.cross_entropy(objective.place(pairs), views.places)
    assert outcome.loss.item() == pytest.approx(contrast + classes + 0.5 * places, rel=1e-4)
    assert outcome.terms.keys() == {"l_con", "l_aug", "l_pos"} and not objective.uses_centres


@pytest.mark.parametrize(("name", "side"), [("ccd", 64), ("pmsacl", 64), ("pmsacl-local", 32)])
def test_pairs_of_patches_lie_where_their_class_says(name, side):
    """Each pixel carries its own coordinates; a global model sees patches of 32 pixels enlarged to the images' 64."""
    objective, _ = build(name, pos_jitter=0, pos_global=True)
    ramp = torch.arange(64.0) / 64
    x = torch.stack([ramp[:, None].expand(64, 64), ramp.expand(64, 64), torch.zeros(64, 64)]).expand(20, -1, -1, -1)
    views = objective.views(x, generator(0, STEP))
    first, second = views.images[len(views.labels) :].chunk(2)
    assert first.shape == (20, 3, side, side)
    offset = ((second - first)[:, :2, 0, 0] * 64 / 32).round().long()
    assert torch.equal(offset, torch.tensor(NEIGHBOURS)[views.places])
    small = F.avg_pool2d(first, side // 32)
    assert (small[:, 0, 1:] - small[:, 0, :-1]).mean() == pytest.approx(1 / 64, rel=0.05)


@pytest.mark.slow
def test_pmsacl_has_l_pos_only_where_asked():
    plain, encoder = build("pmsacl")
    assert plain.place is None and "l_pos" not in outcome_of(plain, encoder)[-1].terms
    asked, encoder = build("pmsacl", pos_global=True)
    outcome = outcome_of(asked, encoder)[-1]
    assert outcome.terms.keys() == {"l_ctr", "l_con", "l_aug", "l_pos"}
    assert outcome.loss.item() == pytest.approx(float(sum(outcome.terms.values())), rel=1e-5)
    outcome.loss.backward()
    assert all(p.grad.abs().max() > 0 for p in asked.place.parameters())


@pytest.mark.parametrize("name", ["ccd", "pmsacl-local"])
def test_images_too_small_for_pairs_are_refused(name):
    with pytest.raises(BadConfig, match="at least 64 pixels"):
        build(name, size=48)


def test_class_head_of_published_ccd_keeps_its_first_weights():
    """As in the released code, whose optimiser does not have them; the encoder still learns to be told apart by it."""
    objective, encoder = build("ccd", **PRETRAIN_PRESETS["published-ccd"].replace(size=64, k=2).to_dict())
    *_, outcome = outcome_of(objective, encoder)
    outcome.loss.backward()
    assert objective.classifier.weight.grad is None and outcome.terms["l_aug"] > 0
    assert all(p.grad is not None for p in encoder.head.parameters())


def test_the_papers_pre_trainings_are_registered():
    assert {"pmsacl", "pmsacl-local", "simclr", "rotnet", "csi", "droc", "supcon", "ccd"} <= set(OBJECTIVES.names())


@pytest.mark.parametrize("name", sorted(set(OBJECTIVES.names()) - {"pmsacl", "pmsacl-local"}))
def test_it_trains_and_validates(name, tmp_path):
    config = TINY.replace(objective=name, patch=16, batch=2, epochs=1, lr=1e-3)
    done = pretrain(normals(2), config, tmp_path, held_out=normals(2, seed=9))
    assert done.history[-1]["loss"] is not None and "val_loss" in done.history[-1]
    assert (done.centres is None) == (not OBJECTIVES.get(name).uses_centres)


@pytest.mark.parametrize(("name", "sides"), [("rotnet", 1), ("csi", 2)])
def test_each_image_is_turned_by_quarters(name, sides):
    """Against NumPy's own turn, image by image, with weak views that change nothing."""
    objective, encoder = build(name, weak=STILL.to_dict())
    x = images()
    views, _, _, _ = outcome_of(objective, encoder, x)
    assert objective.classes == 4 and views.images.shape == (sides * 12, 3, 64, 64)
    for place, (view, label) in enumerate(zip(views.images, views.labels.tolist(), strict=True)):
        expected = np.rot90(x[place // 4 % 3].numpy(), label, (1, 2))
        np.testing.assert_allclose(view.numpy(), expected, atol=1e-5)
    assert torch.bincount(views.labels).tolist() == [3 * sides] * 4
    if sides == 2:  # the partner is the other view of the same image under the same turn
        assert torch.allclose(views.images, views.images[views.partners], atol=1e-5)
        assert (views.partners != torch.arange(24)).all()


def test_rotnet_classifies_the_turn():
    objective, encoder = build("rotnet")
    views, h, z, outcome = outcome_of(objective, encoder)
    logits = objective.classify(h, z)
    assert outcome.loss.item() == pytest.approx(reference.cross_entropy(logits, views.labels), rel=1e-4)


@pytest.mark.slow
def test_droc_turns_images_by_chance_and_contrasts_one_way():
    """Against a loop from Sohn et al.'s Eq. 3: anchors are first views, all others are second views."""
    objective, encoder = build("droc", tau=0.5, weak=STILL.to_dict())
    x = images(8)
    views, _, z, outcome = outcome_of(objective, encoder, x)
    turns = [
        next(n for n in range(4) if np.allclose(np.rot90(image.numpy(), n, (1, 2)), view.numpy(), atol=1e-5))
        for image, view in zip(x, views.images[:8], strict=True)
    ]
    assert len(set(turns)) > 1 and torch.allclose(views.images[:8], views.images[8:], atol=1e-5)
    u = torch.nn.functional.normalize(z.detach(), dim=1)
    slow = 0.0
    for i in range(8):
        each = [float(torch.exp(u[i] @ u[8 + j] / 0.5)) for j in range(8)]
        slow -= np.log(each[i] / sum(each)) / 8
    assert outcome.loss.item() == pytest.approx(slow, rel=1e-4)
    assert outcome.logits is None


def test_csi_contrasts_and_classifies():
    objective, encoder = build("csi", w_con=0.5)
    views, h, z, outcome = outcome_of(objective, encoder)
    contrast = reference.nt_xent(z.detach(), views.partners, 0.2)
    classes = reference.cross_entropy(objective.classify(h, z), views.labels)
    assert outcome.loss.item() == pytest.approx(0.5 * contrast + classes, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rotnet", "csi"])
def test_the_gradient_reaches_backbone_and_head(name):
    objective, encoder = build(name)
    outcome_of(objective, encoder)[-1].loss.backward()
    for module in (encoder.net, objective.classifier):
        assert all(p.grad is not None and p.grad.abs().max() > 0 for p in module.parameters())
