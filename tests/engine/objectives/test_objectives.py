"""PMSACL's objectives: the views they make, where the gradient goes, and their place in the registry."""

import pytest
import torch

from core.engine.config import BadConfig
from core.engine.objectives.views import draw_pairs
from core.engine.registry import STRONG
from core.engine.training.base import STEP, generator
from tests.engine.objectives.build import CONFIG, STILL, build, images, outcome_of

pytestmark = pytest.mark.slow


def test_two_weak_views_of_one_strong_image_per_class():
    """With weak views that change nothing, partners are the same picture and class 0 is the image itself."""
    objective, _ = build("pmsacl", weak=STILL.to_dict())
    x = images()
    views = objective.views(x, generator(0, STEP))
    assert views.images.shape == (3 * 3 * 2, 3, 64, 64)
    assert torch.bincount(views.labels).tolist() == [6, 6, 6]
    assert torch.equal(views.partners[views.partners], torch.arange(18)) and (views.partners != torch.arange(18)).all()
    assert torch.equal(views.labels[views.partners], views.labels)
    assert torch.allclose(views.images, views.images[views.partners], atol=1e-5)
    plain = views.images[views.labels == 0]
    assert torch.allclose(plain, torch.cat([x, x]), atol=1e-5)
    for n in (1, 2):
        changed = (views.images[views.labels == n] - plain).abs().amax((1, 2, 3))
        assert (changed > 0.05).all()


def test_weak_views_are_drawn_apart():
    objective, _ = build("pmsacl")
    views = objective.views(images(), generator(0, STEP))
    assert ((views.images - views.images[views.partners]).abs().mean((1, 2, 3)) > 0.01).all()


def test_views_come_from_the_generator_alone():
    objective, _ = build("pmsacl-local")
    one, two, other = (objective.views(images(), generator(s, STEP)).images for s in (1, 1, 2))
    assert torch.equal(one, two) and not torch.equal(one, other)


def test_gradient_reaches_encoder_and_heads_and_not_the_centres():
    objective, encoder = build("pmsacl-local")
    views = objective.views(images(), generator(0, STEP))
    centres = torch.randn(3, 128, requires_grad=True)
    h = encoder.backbone(views.images)
    objective.loss(h, encoder.project(h), views, centres).loss.backward()
    for module in (encoder.net, encoder.head, objective.classifier, objective.place):
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None and parameter.grad.abs().max() > 0, name
    assert centres.grad is None


@pytest.mark.parametrize(
    ("term", "weight"), [("l_ctr", "w_ctr"), ("l_con", "w_con"), ("l_aug", "w_aug"), ("l_pos", "w_pos")]
)
def test_loss_is_the_weighted_sum_of_its_terms(term, weight):
    weights = dict.fromkeys(("w_ctr", "w_con", "w_aug", "w_pos"), 0.0) | {weight: 0.5}
    objective, encoder = build("pmsacl-local", **weights)
    views = objective.views(images(), generator(0, STEP))
    with torch.no_grad():
        h = encoder.backbone(views.images)
        outcome = objective.loss(h, encoder.project(h), views, torch.randn(3, 128))
    assert outcome.loss.item() == pytest.approx(0.5 * float(outcome.terms[term]), rel=1e-5)


@pytest.mark.parametrize(("where", "width"), [("z", 128), ("features", 512)])
def test_l_aug_sits_where_it_is_asked_to(where, width):
    objective, _ = build("pmsacl", aug_on=where)
    assert objective.classifier.in_features == width
    h, z = torch.randn(5, 512), torch.randn(5, 128)
    seen = z if where == "z" else h
    assert torch.equal(objective.classify(h, z), objective.classifier(seen))


def test_local_instances_are_cut_where_the_region_of_interest_is():
    config = CONFIG.replace(pos_jitter=0, size=128)
    roi = torch.zeros(40, 128, 128, dtype=torch.uint8)
    roi[:, :, :64] = 1
    _, inside, _ = draw_pairs(images(40, 128), config, generator(0, STEP), roi)
    assert inside.shape == (40, 32, 32)
    plain = torch.stack([draw_pairs(images(40, 128), config, generator(s, STEP), None)[0].sum() for s in range(2)])
    assert plain[0] != plain[1]
    assert float((inside.float().mean((1, 2)) >= 0.5).float().mean()) > 0.85  # about half without the choice


@pytest.mark.parametrize("name", sorted(set(STRONG.names())))
def test_every_strong_augmentation_makes_views(name):
    objective, _ = build("pmsacl", strong=name, k=1)
    assert objective.views(images(), generator(0, STEP)).images.shape == (12, 3, 64, 64)


@pytest.mark.parametrize("name", ["pmsacl", "pmsacl-local"])
def test_what_is_tried_at_the_shortcut_is_off_unless_asked_for(name):
    def terms(**changes):
        torch.manual_seed(3)  # of the centres that outcome_of draws
        objective, encoder = build(name, **changes)
        torch.manual_seed(3)
        return outcome_of(objective, encoder)[3]

    plain, spread = terms(), terms(w_var=2.0)
    assert "l_var" not in plain.terms and 0 < spread.terms["l_var"] <= 1
    assert (spread.loss - plain.loss).item() == pytest.approx(2 * float(spread.terms["l_var"]), rel=1e-4)
    for changes in ({"centring": "denominator"}, {"positives": "class"}):
        other = terms(**changes)
        assert other.terms["l_con"] != plain.terms["l_con"] and other.terms["l_ctr"] == plain.terms["l_ctr"]
    with pytest.raises(BadConfig, match="positives"):
        build(name, positives="none")
