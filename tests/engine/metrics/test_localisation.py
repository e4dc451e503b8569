"""Dice, IoU and PRO, each against a slow loop written from its definition."""

import numpy as np
import pytest
from scipy import ndimage

from core.engine.calibration.percentiles import PixelScale
from core.engine.metrics import bootstrap as boot
from core.engine.metrics import localised
from core.engine.metrics.evaluate import evaluate
from core.engine.metrics.localisation import BLOCK, Pixels, best_dice, overlaps_of, pixel_auroc, pro, region_weights
from core.engine.metrics.localised import at_once, by_blocks
from tests.engine.metrics.test_evaluate import study


def case(seed, n=4, side=20, ties=False, roi=False):
    rng = np.random.default_rng(seed)
    masks = np.zeros((n, side, side), np.uint8)
    for i in range(n - 1):  # the last one has no lesion
        for _ in range(rng.integers(1, 4)):
            y, x, h, w = rng.integers(0, side - 6, 2).tolist() + rng.integers(1, 6, 2).tolist()
            masks[i, y : y + h, x : x + w] = 1
    maps = (rng.normal(size=masks.shape) + 1.2 * masks).astype(np.float32)
    if ties:
        maps = np.round(maps, 1)
    valid = rng.random(masks.shape) < 0.8 if roi else None
    return maps, masks, valid


def slow_pro(maps, masks, valid, limit=0.3):
    """Threshold by threshold, region by region."""
    valid = np.ones(masks.shape, bool) if valid is None else valid
    regions = []
    for i, mask in enumerate(masks):
        parts, count = ndimage.label(mask, structure=np.ones((3, 3)))
        regions += [(i, (parts == k) & valid[i]) for k in range(1, count + 1)]
    regions = [(i, r) for i, r in regions if r.any()]
    healthy = maps[valid & (masks == 0)]
    points = [(0.0, 0.0)]
    for t in np.unique(maps)[::-1]:
        overlap = np.mean([(maps[i][r] >= t).mean() for i, r in regions])
        points.append(((healthy >= t).mean(), overlap))
    area = 0.0
    for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
        if x0 >= limit:
            break
        if x1 > limit:
            x1, y1 = limit, y0 + (y1 - y0) * (limit - x0) / (x1 - x0)
        area += (x1 - x0) * (y0 + y1) / 2
    return area / limit


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("roi", [False, True])
def test_pro_is_the_area_of_the_slow_curve(seed, ties, roi):
    maps, masks, valid = case(seed, ties=ties, roi=roi)
    assert pro(maps, masks, valid) == pytest.approx(slow_pro(maps, masks, valid), abs=1e-6)


def test_pro_is_one_for_the_mask_itself_and_nothing_for_a_map_that_misses():
    _, masks, _ = case(0)
    assert pro(masks.astype(np.float32), masks) == pytest.approx(1, abs=1e-12)
    assert pro(1 - masks.astype(np.float32), masks) == 0
    assert pro(np.zeros(masks.shape, np.float32), masks) == pytest.approx(0.15)  # a straight line to (1, 1)
    assert pro(np.zeros(masks.shape, np.float32), np.zeros_like(masks)) is None


def test_a_small_region_weighs_as_much_as_a_large_one():
    masks = np.zeros((1, 30, 30), np.uint8)
    masks[0, 2:20, 2:20] = 1
    masks[0, 25:27, 25:27] = 1
    maps = np.zeros(masks.shape, np.float32)
    maps[0, 25:27, 25:27] = 1  # only the small one is found
    weights, regions = region_weights(masks)
    assert regions[0] == 2
    assert weights[0].sum() == pytest.approx(2, abs=1e-5)
    assert pro(maps, masks) == pytest.approx(0.5 + 0.5 * 0.15)


def above(maps, level, valid):
    return maps > level if valid is None else (maps > level) & valid


@pytest.mark.parametrize("roi", [False, True])
def test_overlaps_are_those_of_the_slow_loop(roi):
    maps, masks, valid = case(1, roi=roi)
    dice, iou = overlaps_of(above(maps, 0.7, valid), masks, valid)
    for i in range(len(maps)):
        both = one = other = 0
        for y, x in np.ndindex(maps.shape[1:]):
            if valid is not None and not valid[i, y, x]:
                continue
            marked, lesion = maps[i, y, x] > 0.7, masks[i, y, x] == 1
            both, one, other = both + (marked and lesion), one + marked, other + lesion
        if other == 0:
            assert np.isnan(dice[i]) and np.isnan(iou[i])
        else:
            assert dice[i] == pytest.approx(2 * both / (one + other))
            assert iou[i] == pytest.approx(both / (one + other - both))


@pytest.mark.parametrize("roi", [False, True])
def test_best_dice_is_the_best_of_all_thresholds(roi):
    maps, masks, valid = case(2, side=14, roi=roi)  # few enough pixels that every value is among the levels
    level, value = best_dice(maps, masks, valid)
    assert value == pytest.approx(np.nanmean(overlaps_of(above(maps, level, valid), masks, valid)[0]))
    tried = [np.nanmean(overlaps_of(above(maps, t, valid), masks, valid)[0]) for t in np.unique(maps)]
    assert value == pytest.approx(max(tried), abs=2e-3)
    with pytest.raises(ValueError, match="lesion mask"):
        best_dice(maps, np.zeros_like(masks))


def test_pixels_outside_do_not_count():
    maps, masks, _ = case(3)
    valid = np.zeros(maps.shape, bool)
    valid[:, 4:16, 4:16] = True
    changed = np.where(valid, maps, 99).astype(np.float32)
    for figure in (pixel_auroc, pro):
        assert figure(maps, masks, valid) == pytest.approx(figure(changed, masks, valid))
        assert figure(maps, masks, valid) != pytest.approx(figure(changed, masks))
    inner = (slice(None), slice(4, 16), slice(4, 16))
    assert pixel_auroc(maps, masks, valid) == pytest.approx(pixel_auroc(maps[inner], masks[inner]))


class Counted:
    """Rows that remember how many were asked for together."""

    def __init__(self, rows):
        self.rows, self.shape, self.most = rows, rows.shape, 0

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        found = self.rows[index]
        self.most = max(self.most, len(found))
        return found


def pixels_of(given, roi=None):
    return Pixels(given["maps"], given["masks"], given["labels"], roi)


@pytest.mark.long
@pytest.mark.parametrize(("with_roi", "shift"), [(False, 0.0), (True, 1000.0), (True, -3.0)])
def test_figures_are_those_of_all_at_once(with_roi, shift):
    given = study(n=150, side=48, seed=3)
    given["maps"] = given["maps"] + np.float32(shift)
    roi = np.ones_like(given["masks"])
    roi[:, :9] = 0
    pixels = pixels_of(given, roi if with_roi else None)
    used, found = np.arange(150), pixels.lesions()[1]
    counts = boot.bootstrap_counts(given["labels"], 60, 0)
    scale = PixelScale(shift, 3 + shift, 0.7 + shift, 0.4, ("011", "111"))
    exact, binned = (measure(pixels, used, found, scale, counts) for measure in (at_once, by_blocks))
    assert np.array_equal(exact.dice, binned.dice) and np.array_equal(exact.iou, binned.iou)
    assert np.array_equal(exact.share, binned.share) and 0 < exact.share.mean() < 1
    assert binned.pixel_auroc == pytest.approx(exact.pixel_auroc, abs=1e-4)
    assert binned.pro == pytest.approx(exact.pro, abs=1e-4)
    assert binned.pro_all == pytest.approx(exact.pro_all, abs=1e-4)
    assert binned.pixel_aurocs == pytest.approx(exact.pixel_aurocs, abs=1e-3)
    assert binned.pros == pytest.approx(exact.pros, abs=5e-3)
    assert binned.pros_all == pytest.approx(exact.pros_all, abs=5e-3)


@pytest.mark.slow
def test_maps_of_few_values_have_their_ties_counted_half():
    given = study(n=80, side=24)
    given["maps"] = np.repeat(np.repeat(np.round(given["maps"]), 2, 1), 2, 2)  # at full size: nothing in between
    pixels = pixels_of(given)
    used, found = np.arange(80), pixels.lesions()[1]
    exact, binned = (measure(pixels, used, found, PixelScale(0.5, 0.5, 0.5)) for measure in (at_once, by_blocks))
    assert binned.pixel_auroc == pytest.approx(exact.pixel_auroc, abs=1e-12)
    assert binned.pro == pytest.approx(exact.pro, abs=1e-12)
    assert binned.pro_all == pytest.approx(exact.pro_all, abs=1e-12)
    assert binned.pros is None and binned.pixel_aurocs is None


@pytest.mark.long
def test_the_row_of_many_images_is_the_row_of_few(monkeypatch):
    given = study(n=300, side=32)
    at_once_row = evaluate(**given, bootstrap=100)
    monkeypatch.setattr(localised, "MOST", 0)
    lazy = {name: Counted(given[name]) for name in ("maps", "masks", "holdout_maps")}
    row = evaluate(**(given | lazy), bootstrap=100)
    assert set(row) == set(at_once_row)
    assert row.pop("five_groups") == at_once_row.pop("five_groups") and row["dice"] == at_once_row["dice"]
    for name, value in at_once_row.items():
        assert row[name] == pytest.approx(value, abs=5e-3), name
    assert lazy["masks"].most <= max(BLOCK, 100) and lazy["maps"].most <= max(BLOCK, 100)


def test_a_value_that_is_not_finite_is_refused(monkeypatch):
    given = study(n=40)
    given["maps"][3, 2, 2] = np.nan
    monkeypatch.setattr(localised, "MOST", 0)
    with pytest.raises(ValueError, match="not finite"):
        evaluate(**given, bootstrap=0)
