"""Training pairs: what is asked for is what was put in, and the view moves image and mask together."""

import pytest
import torch

from core.engine.augment.strong import family
from core.engine.detectors.lesion_head.synth import Pairs, jitter_view, visible


def frames(batch=8, side=32):
    return torch.rand(batch, 3, side, side, generator=torch.Generator().manual_seed(1))


def test_masks_lie_where_the_image_changed():
    x = frames()
    pair = Pairs(("growth:growth", "medmix:soft"), 3)(x, None, torch.Generator().manual_seed(2))
    changed = (pair.images - x).abs().amax(1) > 0
    assert pair.masks.any() and not (pair.masks & ~changed).any()
    assert not pair.masks[pair.counts == 0].any()
    assert torch.equal(pair.images[pair.counts == 0], x[pair.counts == 0])


def test_an_unseen_patch_is_not_asked_for():
    x = frames()
    faint = x.clone()
    faint[:, :, 8:16, 8:16] += 0.005
    clear = x.clone()
    clear[:, :, 8:16, 8:16] += 0.3
    assert not visible(x, faint, 0.02).any()
    assert visible(x, clear, 0.02)[:, 10:14, 10:14].all()


def test_the_schedule_goes_from_clear_lesions_to_all_that_can_be_seen():
    pairs, x = Pairs(("medmix:xray", "medmix:soft"), 3), frames(24, 64)
    hard, half, easy = (pairs(x, None, torch.Generator().manual_seed(2), ease=e) for e in (0.0, 0.5, 1.0))
    assert torch.equal(hard.images, easy.images), "what is pasted is the same"
    assert not (easy.masks & ~half.masks).any() and not (half.masks & ~hard.masks).any()
    assert easy.masks.sum() < half.masks.sum() < hard.masks.sum()


def test_view_moves_mask_with_image():
    """An image that is its own mask must still be, where the light alone changes its value."""
    masks = torch.zeros(4, 32, 32, dtype=torch.bool)
    masks[:, 8:20, 12:26] = True
    x = masks[:, None].float().expand(-1, 3, -1, -1).contiguous()
    view, mask = jitter_view(x, masks, torch.Generator().manual_seed(4))
    bright = view.mean(1) > view.mean(1).amax((1, 2), keepdim=True) / 2
    assert (bright == mask).float().mean() > 0.97


def test_a_grey_image_gives_a_grey_view_and_a_coloured_one_does_not():
    grey = torch.rand(4, 1, 32, 32).expand(-1, 3, -1, -1)
    x = torch.cat([grey, torch.rand(2, 3, 32, 32)])
    view, _ = jitter_view(x, torch.zeros(6, 32, 32, dtype=torch.bool), torch.Generator().manual_seed(4))
    apart = (view[:, 0] - view[:, 1]).abs().amax((1, 2))
    assert apart[:4].max() < 1e-5 and apart[4:].min() > 0.05


def test_less_blur_leaves_small_lesions_their_contrast():
    x = torch.full((8, 3, 32, 32), 0.3)
    x[:, :, 15:17, 15:17] = 0.9
    masks = x[:, 0] > 0.5

    def contrast(blur):
        view, _ = jitter_view(x, masks, torch.Generator().manual_seed(4), blur=blur, grain=0.0)
        return (view.amax((1, 2, 3)) - view.mean((1, 2, 3))).mean()

    assert contrast(0.0) > contrast(0.3) > contrast(1.0)


def test_unknown_preset_names_those_that_exist():
    with pytest.raises(ValueError, match="it has: .*soft"):
        family("medmix:none-such")
