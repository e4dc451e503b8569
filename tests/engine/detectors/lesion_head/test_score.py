"""The score is chosen on validation data: what separates there is what is taken."""

import json

import numpy as np
import pytest

from core.engine.detectors.lesion_head import synth as validation
from core.engine.detectors.lesion_head.config import LesionHeadConfig
from core.engine.detectors.lesion_head.score import ScoreRule, Validation, choose_rule, summaries
from core.engine.detectors.lesion_head.synth import SyntheticValidation


def test_summaries_of_a_known_map():
    maps = np.full((1, 20, 20), -5.0, np.float32)
    maps[0, 2:6, 2:6] = 3.0
    maps[0, 10:12, 10:12] = 4.0
    classes, margin = np.array([[0.2, 0.5, 0.2, 0.1]]), np.array([0.7])
    out = summaries(maps, classes, margin, None, threshold=0.0)
    assert out["area"][0] == pytest.approx(np.log1p(20))
    assert out["largest component"][0] == pytest.approx(np.log1p(16))
    assert out["top 0.5%"][0] == pytest.approx(4.0)
    assert out["top 5.0%"][0] == pytest.approx((4 * 4 + 16 * 3) / 20)
    assert out["class"][0] == pytest.approx(np.log(0.8 / 0.2))
    roi = np.zeros((1, 20, 20), np.uint8)
    roi[0, 8:, 8:] = 1
    assert summaries(maps, classes, margin, roi, 0.0)["largest component"][0] == pytest.approx(np.log1p(4))


def test_the_separating_summary_is_taken():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 60)
    values = {"noise": rng.normal(size=120), "sharp": labels + 0.01 * rng.normal(size=120)}
    rule = choose_rule(Validation(values, labels), 0.0)
    assert rule.name == "sharp" and rule.auroc["sharp"] == 1.0
    assert np.allclose(rule(values), values["sharp"], atol=1e-6)


def test_two_halves_of_the_truth_are_combined():
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], 200)
    values = {name: labels + rng.normal(size=400) for name in ("a", "b", "c")}
    rule = choose_rule(Validation(values, labels), 0.0)
    assert rule.name == "combined" and set(rule.terms) == {"a", "b", "c"}
    assert rule.auroc["combined"] > max(rule.auroc[n] for n in "abc")
    assert ScoreRule.from_dict(json.loads(rule.to_json())) == rule


def test_with_hardly_any_images_the_default_rule_stands():
    values = {"top 2.0%": np.arange(12.0), "area": np.zeros(12)}
    rule = choose_rule(Validation(values, np.r_[np.zeros(2, int), np.ones(10, int)]), 0.5)
    assert rule.name == "top 2.0%" and rule.auroc == {} and rule.threshold == 0.5


def test_what_the_map_does_not_show_must_win_clearly():
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1], 300)
    near, clear = labels + rng.normal(size=600), 9 * labels + rng.normal(size=600)
    shown = near + 0.5 * rng.normal(size=600)
    rule = choose_rule(Validation({"top 2.0%": shown, "class": near}, labels), 0.0)
    assert rule.name == "top 2.0%" and rule.auroc["class"] > rule.auroc["top 2.0%"]
    assert choose_rule(Validation({"top 2.0%": shown, "class": clear}, labels), 0.0).name == "class"


@pytest.mark.parametrize("roi", [False, True])
def test_many_images_are_judged_by_a_part_of_them_that_is_the_same_each_time(monkeypatch, roi):
    monkeypatch.setattr(validation, "AT_MOST", 6)
    images = np.random.default_rng(0).integers(0, 255, (40, 32, 32, 3), dtype=np.uint8)
    inside = np.ones((40, 32, 32), np.uint8) * np.arange(40, dtype=np.uint8)[:, None, None] if roi else None
    config = LesionHeadConfig(k=2, seed=3)
    first, again = (SyntheticValidation.draw(images, inside, config) for _ in range(2))
    assert first.normals == 6 and len(first.images) == len(first.masks) == 6 * 3
    rows = [int(np.flatnonzero((images == one).all((1, 2, 3)))[0]) for one in first.images[:6]]
    assert len(set(rows)) == 6 and rows != list(range(6)), "drawn, not the first ones"
    assert (first.images == again.images).all()
    if roi:
        assert first.roi is not None and first.roi[:, 0, 0].tolist() == rows * 3, "each with its own region"
    few = SyntheticValidation.draw(images[:5], None, config)
    assert few.normals == 5 and (few.images[:5] == images[:5]).all()
