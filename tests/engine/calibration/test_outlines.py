"""The outline: it follows each image's own maximum, is learnt from pasted lesions, and leaves out what is unknown."""

import json

import numpy as np
import pytest
import torch

from core.engine.calibration.outlines import (
    LEAST,
    PASTED,
    comparable,
    learn_share,
    level_of,
    outlined,
    pasted,
    peaks,
    seen_rows,
)
from core.engine.calibration.percentiles import Calibration, PixelScale

SCALE = PixelScale(0.0, 4.0, 1.0, 0.5)


def test_the_level_follows_the_image_and_old_runs_keep_theirs():
    assert level_of(np.array([0.9, 1.5, 6.0]), SCALE).tolist() == [1.0, 0.75, 3.0]
    assert level_of(np.array([0.9, 1.5, 6.0]), SCALE._replace(share=None)).tolist() == [1.0] * 3
    # Neither a shift nor another unit of the map changes what is outlined.
    other = PixelScale(-7.0, 1.0, -5.0, 0.5)
    assert np.allclose(level_of(np.array([-5.2, -4.0, 5.0]), other), 2 * level_of([0.9, 1.5, 6.0], SCALE) - 7)


def test_only_parts_that_rise_above_what_is_usual_are_outlined():
    heat = np.zeros((12, 12), np.float32)
    heat[1:4, 1:4], heat[2, 2] = 0.8, 1.4  # around what is unusual, the outline reaches down to half of it
    heat[8:11, 8:11] = 0.9  # nothing here lies above 1
    found = outlined(heat[None], level_of(1.4, SCALE), SCALE)[0]
    assert found[1:4, 1:4].all() and found.sum() == 9
    # An image that is odd all over: one level marks it all, its own maximum does not.
    odd = np.full((12, 12), 2.0, np.float32)
    odd[5:8, 5:8] = 9.0
    assert outlined(odd[None], level_of(9.0, SCALE), SCALE).sum() == 9
    assert outlined(odd[None], 1.0, SCALE._replace(share=None)).all()
    assert not outlined(np.zeros((1, 12, 12), np.float32), level_of(0.0, SCALE), SCALE).any()


def test_places_without_comparison_are_never_outlined_and_set_no_level():
    roi = np.ones((40, 24, 24), np.uint8)
    roi[:39, :6] = 0  # the top rows are shown by one image of forty
    rows = seen_rows(roi, 8)
    assert rows == ("00000000",) * 2 + ("11111111",) * 6 and seen_rows(np.ones((3, 24, 24), np.uint8), 8) is None
    scale = SCALE._replace(seen=rows, lo=-4.0)
    maps = np.zeros((1, 8, 8), np.float32)
    maps[0, 0, 3], maps[0, 5, 5] = 50.0, 2.0
    assert peaks(maps, None, scale) == [2.0]
    assert peaks(maps, np.zeros((1, 24, 24), np.uint8), scale) == [2.0], "an empty region says nothing"
    heat = np.kron(maps, np.ones((1, 3, 3), np.float32))
    level = level_of(2.0, scale)
    assert level == -1.0 and (heat > level).all()
    found = outlined(heat, level, scale)[0]
    assert not found[:6].any() and found[6:].all() and np.array_equal(comparable((24, 24), scale), found)
    inside = np.ones((1, 24, 24), bool)
    inside[:, :, :12] = False
    assert not outlined(heat, level, scale, inside)[0, :, :12].any()


def test_share_and_places_are_kept_with_the_calibration():
    maps = np.random.default_rng(0).random((20, 8, 8)).astype(np.float32)
    one = Calibration.of(np.arange(20.0), maps).outlined_by(0.45, ("01", "11"))
    again = Calibration.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again == one and again.pixels.share == 0.45 and again.pixels.seen == ("01", "11")
    old = {"scores": [1.0], "pixels": {"lo": 0.0, "hi": 2.0, "threshold": 1.0}}
    assert Calibration.from_dict(old).pixels == PixelScale(0.0, 2.0, 1.0, None, None)


def normals(n=10, side=64):
    rng = np.random.default_rng(3)
    coarse = torch.from_numpy(rng.uniform(60, 190, (n, 3, 9, 9)))
    smooth = torch.nn.functional.interpolate(coarse, (side, side), mode="bicubic").clamp(0, 255)
    return smooth.permute(0, 2, 3, 1).numpy().astype(np.uint8), np.ones((n, side, side), np.uint8)


@pytest.mark.slow
def test_lesions_of_every_kind_are_pasted_and_can_be_repeated():
    images, roi = normals()
    first, again = (list(pasted(images, roi, 5)) for _ in range(2))
    assert len(first) == 4 and len(PASTED) < len(images)
    for (x, inside, masks), (y, _, same) in zip(first, again, strict=True):
        assert np.array_equal(x, y) and np.array_equal(masks, same)
        assert x.shape == images.shape and inside.shape == roi.shape and masks.dtype == bool
        assert (masks.sum((1, 2)) >= LEAST).mean() > 0.5
    plain, masks = first[0][0].astype(int), first[0][2]
    assert not np.array_equal(plain[masks], images[masks]) and (plain[~masks] == images[~masks]).mean() > 0.8
    assert (first[2][0] != images).mean() > 0.9, "changed all over"


@pytest.mark.slow
@pytest.mark.parametrize("blunt", [1, 9])
def test_a_blunt_map_is_cut_higher_than_a_sharp_one(blunt):
    """A detector that sees what was pasted, spread over `blunt` pixels: the share is where such maps overlap best."""
    images, roi = normals(12)
    answers = {x.tobytes(): m for given, _, masks in pasted(images, roi, 0) for x, m in zip(given, masks, strict=True)}

    def predict(given, _):
        truth = np.stack([answers[x.tobytes()] for x in given]).astype(np.float32)
        tent = torch.nn.functional.avg_pool2d(torch.from_numpy(truth)[:, None], blunt, 1, blunt // 2)[:, 0].numpy()
        return 5 * tent + 0.3

    share = learn_share(predict, images, roi, PixelScale(0.3, 4.0, 0.5))
    assert 0.05 < share < 0.7
    own = PixelScale(0.3, 4.0, 0.5, share)
    for given, inside, masks in pasted(images, roi, 0):
        use = masks.sum((1, 2)) >= 60
        maps = predict(given[use], None)
        found = outlined(maps, level_of(peaks(maps, inside[use], own), own), own)
        dice = 2 * (found & masks[use]).sum() / (found.sum() + masks[use].sum())
        assert dice > (0.99 if blunt == 1 else 0.7)


def test_nothing_is_learnt_from_lesions_that_nobody_sees():
    images, roi = normals(1)
    assert learn_share(lambda x, _: np.zeros(x.shape[:3], np.float32), images, roi, SCALE) is None
    assert learn_share(lambda x, _: np.zeros(x.shape[:3], np.float32), *normals(12), SCALE) is None
