"""Rot-Net, CSI and DROC: four turns of each image, and each method's own loss over them."""

import numpy as np
import pytest
import torch

from core.engine.losses import reference
from tests.engine.objectives.build import STILL, build, images, outcome_of


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
