"""Where a run says nothing of an image: a value of its own, kept with the reading, shown and exported as such."""

import csv

import numpy as np
import pytest

from core.engine.calibration.outlines import not_judged
from core.engine.calibration.percentiles import PixelScale
from core.studio.clusters import explore
from core.studio.clusters.library import Map
from core.studio.clusters.points import PointSet
from core.studio.review import cases
from core.studio.review.exports.tables import export_scores
from core.studio.runs import readings, scoring, sheet
from tests.conftest import scored_padim
from tests.studio.review.conftest import asks

HALF = tuple(("1" * 16 + "0" * 16) for _ in range(32))  # normal images show nothing on the right


@pytest.mark.parametrize("seed", range(5))
def test_not_judged_is_outside_the_region_or_where_normal_images_show_nothing(seed):
    rng = np.random.default_rng(seed)
    roi = (rng.random((3, 8, 8)) > 0.4).astype(np.uint8)
    roi = roi.repeat(4, 1).repeat(4, 2)
    hidden = not_judged((3, 8, 8), PixelScale(0, 1, 0.5, seen=HALF), roi)
    assert hidden[:, :, 4:].all(), "places that no normal image shows"
    assert np.array_equal(hidden[:, :, :4], roi[:, ::4, ::4][:, :, :4] == 0)
    assert not not_judged((3, 8, 8), PixelScale(0, 1, 0.5)).any()
    assert not not_judged((1, 8, 8), PixelScale(0, 1, 0.5), np.zeros((1, 32, 32), np.uint8)).any(), "no region is known"


@pytest.mark.long
def test_a_reading_keeps_and_says_where_nothing_was_judged(store, tiny_study, tmp_path, monkeypatch):
    monkeypatch.setattr(scoring, "seen_rows", lambda roi, side: HALF)
    _, fit = scored_padim(store, tiny_study)
    rows = store.query("SELECT * FROM readings WHERE run = ?", [fit])
    assert rows
    for row in rows:
        hidden = readings.unpack_not_judged(row)
        assert hidden.shape == (row["map_h"], row["map_w"]) and hidden[:, hidden.shape[1] // 2 :].all()
        context = asks(store, case_id=row["case_id"], run=fit)
        said = cases.detail(context)["readings"][fit]["words"]
        assert f"{100 * hidden.mean():.0f} % of the image is not judged (hatched)." in said
        assert cases.map_of(context)["not_judged"] == row["not_judged"]
        points = PointSet("", tiny_study, 32, [], np.array([row["case_id"]]), *np.zeros((4, 1), int), tmp_path)
        colours = explore.heat(store, Map("", {}, np.zeros((1, 1, 2)), points), 0, fit, side=64)
        lines = (colours == (200, 200, 200, 217)).all(2)
        assert lines[:, 34:].mean() > 0.1 and not lines[:, :30].any()
    export_scores(store, tiny_study, tmp_path / "scores.csv", "tester")
    with (tmp_path / "scores.csv").open(encoding="utf-8") as file:
        shares = [float(line[readings.NOT_JUDGED]) for line in csv.DictReader(file) if line["run"] == fit]
    assert len(shares) == len(rows) and min(shares) >= 0.5
    shown, _ = sheet.cases_by_dice(store, fit)
    assert all(case.hidden[:, 20:].all() and not case.found[case.hidden].any() for case in shown)


def test_all_judged_says_nothing(room):
    store, run = room
    row = store.first("SELECT * FROM readings WHERE run = ? LIMIT 1", [run])
    assert not readings.unpack_not_judged(row).any()
    said = cases.detail(asks(store, case_id=row["case_id"], run=run))["readings"][run]["words"]
    assert "not judged" not in said
