"""The paper's other objectives against their equations; and what every registered objective must do."""

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
    assert outcome.terms.keys() == {"l_con", "l_aug", "l_pos"}


def test_it_has_no_centres():
    assert not build("ccd")[0].uses_centres


@pytest.mark.parametrize("name", ["ccd", "pmsacl"])
def test_a_global_model_sees_pairs_of_neighbouring_patches(name):
    """Each pixel carries its own coordinates: patches of 32 pixels, enlarged to the images' 64."""
    objective, _ = build(name, pos_jitter=0, pos_global=True)
    ramp = torch.arange(64.0) / 64
    x = torch.stack([ramp[:, None].expand(64, 64), ramp.expand(64, 64), torch.zeros(64, 64)]).expand(20, -1, -1, -1)
    views = objective.views(x, generator(0, STEP))
    first, second = views.images[len(views.labels) :].chunk(2)
    assert first.shape == (20, 3, 64, 64)
    offset = ((second - first)[:, :2, 0, 0] * 64 / 32).round().long()
    assert torch.equal(offset, torch.tensor(NEIGHBOURS)[views.places])
    small = F.avg_pool2d(first, 2)
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


def test_images_too_small_for_pairs_are_refused():
    with pytest.raises(BadConfig, match="at least 64 pixels"):
        build("ccd", size=48)


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
