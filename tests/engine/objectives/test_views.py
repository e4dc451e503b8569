"""Which views reach which loss, and how often a crop makes a view's label false."""

import pytest
import torch

from core.engine.augment.medmix.medmix import MedMix
from core.engine.augment.weak import WeakViews, crops_with
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.objectives.views import NEIGHBOURS, cut, draw_corners
from tests.engine.objectives.build import build, images, outcome_of

MOST_FALSE = 0.02


@pytest.mark.parametrize("class_views", ["strong", "weak"])
@pytest.mark.parametrize("name", ["pmsacl", "pmsacl-local"])
def test_l_ctr_and_l_aug_see_what_the_setting_says_and_l_con_weak_views_alone(name, class_views):
    """By the gradient of each term with respect to the features of every image of a step."""
    objective, encoder = build(name, class_views=class_views)
    x = images()
    views, _, z, outcome = outcome_of(objective, encoder, x)
    count, classed = len(views.labels), len(views.classed[1])
    pairs = len(z) - 2 * len(views.places) if views.places is not None else len(z)
    assert (count, classed, pairs) == ((18, 9, 27) if class_views == "strong" else (18, 18, 18))
    z = torch.randn(len(z), z.shape[1], generator=torch.Generator().manual_seed(0), requires_grad=True)
    centres = torch.randn(objective.classes, z.shape[1], generator=torch.Generator().manual_seed(1))
    terms = {term: value for term, (_, value) in objective.contrast(z, views, centres).items()}
    seen, classes = views.classed
    terms["l_aug"] = torch.nn.functional.cross_entropy(objective.classify(None, z[seen]), classes)
    reached = {}
    for term, value in terms.items():
        (slope,) = torch.autograd.grad(value, z)
        reached[term] = torch.nonzero(slope.abs().sum(1))[:, 0].tolist()
    alone = list(range(18, 27)) if class_views == "strong" else list(range(18))
    assert reached == {"l_ctr": alone, "l_aug": alone, "l_con": list(range(18))}
    assert outcome.terms["l_aug"].item() > 0 and len(outcome.logits) == len(classes)


def test_the_strong_images_of_paper_are_those_of_the_augmentation_without_a_weak_view():
    objective, encoder = build("pmsacl", **PRETRAIN_PRESETS["as-printed"].replace(size=64, k=2).to_dict())
    x = images()
    views, *_ = outcome_of(objective, encoder, x)
    assert views.strong.tolist() == [0, 1, 2] * 3
    assert torch.equal(views.images[views.classed[0]][0::3], x)  # A_0 is the image itself
    assert not PRETRAIN_PRESETS["as-printed"].centre_weak  # Eq. 2 has a(x) as well


@pytest.mark.parametrize("preset", ["quick", "imagenet"])
def test_a_crop_of_the_usual_presets_makes_at_most_two_labels_of_a_hundred_false(preset):
    """A lesion counts as shown where a quarter of its box or more is in sight; without the setting more are not."""
    config = PRETRAIN_PRESETS[preset]
    assert config.class_views == "weak" and config.keep_lesions
    draws = torch.Generator().manual_seed(0)
    side, x = 96, torch.rand(200, 3, 96, 96, generator=draws)
    mixed = MedMix(config.medmix).classes(x, config.k, draws)
    drawn = WeakViews(config.weak).draw(len(mixed.images), side, draws).box
    kept = crops_with(drawn, mixed.boxes, side)
    assert false_share(kept, mixed) <= MOST_FALSE < false_share(drawn, mixed)
    assert (kept[:, :2] >= 0).all() and (kept[:, :2] + kept[:, 2:] <= side + 1e-3).all()
    assert torch.equal(kept[mixed.count == 0], drawn[mixed.count == 0])  # nothing to keep in sight
    assert (kept[:, 2:] == drawn[:, 2:]).all(1).float().mean() > 0.9  # moved, hardly ever widened


def false_share(box, mixed):
    """Of views of A_1 to A_k, those that show fewer lesions than their class says."""
    low, high = mixed.boxes[..., :2].float(), mixed.boxes[..., 2:].float()
    start, end = box[:, None, :2], box[:, None, :2] + box[:, None, 2:]
    seen = (torch.minimum(high, end) - torch.maximum(low, start)).clamp(min=0).prod(-1)
    area = (high - low).prod(-1)
    shown = ((seen >= area / 4) & (area > 0)).sum(1)
    return float((shown < mixed.count)[mixed.count > 0].float().mean())


def test_views_that_keep_lesions_are_read_where_the_crop_says():
    """A marked lesion is in each view; without the setting SimCLR's crop loses some."""
    draws = torch.Generator().manual_seed(3)
    x = torch.zeros(64, 3, 64, 64)
    boxes = torch.zeros(64, 1, 4, dtype=torch.long)
    for i, (y, left) in enumerate(torch.randint(0, 52, (64, 2), generator=draws).tolist()):
        boxes[i, 0] = torch.tensor([y, left, y + 12, left + 12])
        x[i, :, y : y + 12, left : left + 12] = 1
    weak = WeakViews(PRETRAIN_PRESETS["as-printed"].weak.replace(p_jitter=0.0, p_grey=0.0, p_blur=0.0))
    kept, lost = (weak(x, torch.Generator().manual_seed(0), lesions=given).amax((1, 2, 3)) for given in (boxes, None))
    assert (kept > 0.9).all() and not (lost > 0.9).all()


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
