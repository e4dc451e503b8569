"""SupCon on pseudo classes: PMSACL's views, the supervised contrastive loss."""

from __future__ import annotations

import pytest
import torch

from core.engine.losses import reference
from core.engine.training.base import STEP, generator
from tests.engine.objectives.build import build, images, outcome_of


def test_it_sees_what_pmsacl_sees():
    ours, pmsacl = (build(name)[0].views(images(), generator(3, STEP)) for name in ("supcon", "pmsacl"))
    assert torch.equal(ours.images, pmsacl.images) and torch.equal(ours.labels, pmsacl.labels)


def test_its_loss_is_the_equation():
    objective, encoder = build("supcon", tau=0.5)
    views, _, z, outcome = outcome_of(objective, encoder)
    assert outcome.loss.item() == pytest.approx(reference.supcon(z.detach(), views.labels, 0.5), rel=1e-4)
    assert outcome.terms.keys() == {"l_con"}
