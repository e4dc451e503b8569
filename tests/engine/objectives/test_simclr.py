"""SimCLR: two weak views of each image, and its equation over them."""

from __future__ import annotations

import pytest
import torch

from core.engine.losses import reference
from tests.engine.objectives.build import STILL, build, images, outcome_of


def test_two_weak_views_of_each_image_and_one_class():
    objective, encoder = build("simclr", weak=STILL.to_dict())
    x = images()
    views, _, _, outcome = outcome_of(objective, encoder, x)
    assert torch.allclose(views.images, torch.cat([x, x]), atol=1e-5)
    assert views.partners.tolist() == [3, 4, 5, 0, 1, 2] and not views.labels.any()
    assert objective.classes == 1 and outcome.logits is None


def test_its_loss_is_the_equation():
    objective, encoder = build("simclr", tau=0.5, w_con=2.0)
    views, _, z, outcome = outcome_of(objective, encoder)
    assert outcome.loss.item() == pytest.approx(2 * reference.nt_xent(z.detach(), views.partners, 0.5), rel=1e-4)
