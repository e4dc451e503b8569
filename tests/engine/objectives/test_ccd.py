"""CCD: the plain contrastive loss, l_aug and l_pos; and l_pos in PMSACL's global model."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from core.engine.config import BadConfig
from core.engine.losses import reference
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.objectives.views import NEIGHBOURS
from core.engine.training.base import STEP, generator
from tests.engine.objectives.build import build, outcome_of


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
