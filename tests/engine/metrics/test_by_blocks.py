"""Figures of maps that are read block by block: those of all maps at once, within the width of a bin."""

import numpy as np
import pytest

from core.engine.calibration.percentiles import PixelScale
from core.engine.metrics import bootstrap as boot
from core.engine.metrics import localised
from core.engine.metrics.evaluate import evaluate
from core.engine.metrics.localisation import BLOCK, Pixels
from core.engine.metrics.localised import BINS, at_once, by_blocks
from tests.engine.metrics.test_evaluate import study


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
    counts = boot.draws(given["labels"], 60, 0)
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


def test_there_are_more_bins_than_the_promise_takes():
    """The largest bin's share of the pixels, halved, bounds the error of an AUROC."""
    assert 0.5 / BINS < 1e-4
