"""The collapse watch: silent on a healthy run, quick and plain on a collapsed one."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch

from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.training import checkpoint
from core.engine.training.base import Diverged
from core.engine.training.collapse import CollapseWatch, feature_state, relative_spread, remedies
from core.engine.training.pretrain import pretrain
from tests.conftest import ARCH
from tests.engine._images import normals


def feed(watch, spreads, accuracy=0.25):
    return [watch.update(i, spread, spread / 5, accuracy) for i, spread in enumerate(spreads, 1)]


def test_numbers_are_what_they_are_called():
    z = torch.tensor([[0.0, 0.0], [2.0, 0.0], [3.0, 4.0], [3.0, 4.0]])
    state = feature_state(z, torch.tensor([0, 0, 1, 1]), 2)
    assert float(state["class_distance"]) == pytest.approx(20**0.5)  # from (1, 0) to (3, 4)
    mean = z.mean(0)
    assert float(state["spread"]) == pytest.approx(float(((z - mean) ** 2).sum(1).mean()) ** 0.5)


def test_alarm_within_ten_steps_of_the_fall():
    said = feed(CollapseWatch(4), [2.0] * 30 + [0.05] * 10)
    assert not any(said[:30])
    assert said[39] is not None
    first = next(i for i, alarm in enumerate(said) if alarm)
    assert first - 30 < 10
    for words in ("collapsed", "40 times closer", "25% of the images", "lower learning rate"):
        assert words in said[39]


def test_healthy_falls_and_single_odd_steps_give_none():
    slow = [2.0 * 0.98**i for i in range(70)]  # down to a quarter
    assert not any(feed(CollapseWatch(4), slow))
    assert not any(feed(CollapseWatch(4), [2.0] * 10 + [0.01] + [2.0] * 10 + [0.01, 0.01] + [2.0] * 5))


def test_alarm_ends_when_the_features_spread_again():
    watch = CollapseWatch(4)
    said = feed(watch, [2.0] * 10 + [0.05] * 5 + [1.9] * 19)
    assert said[14] and said[-1] == said[14]
    assert watch.update(35, 1.9, 0.3, 0.25) is None and watch.past == said[14]


def test_features_that_run_away_or_are_no_numbers_are_named():
    assert "is diverging" in feed(CollapseWatch(4), [2.0] * 10 + [90.0] * 5)[-1]
    assert "no longer numbers" in feed(CollapseWatch(4), [2.0, float("nan")])[-1]


def test_watch_goes_on_from_its_state():
    whole, first, second = CollapseWatch(4), CollapseWatch(4), CollapseWatch(4)
    spreads = [2.0] * 8 + [0.05] * 6
    expected = feed(whole, spreads)
    feed(first, spreads[:9])
    second.restore(first.state())
    assert [second.update(i, s, s / 5, 0.25) for i, s in enumerate(spreads[9:], 10)] == expected[9:]


def test_remedies_name_what_works():
    """Each remedy is one with which the run of the table of issues did not collapse, and none is in force already."""
    printed, paper = PRETRAIN_PRESETS["as-printed"], PRETRAIN_PRESETS["paper"]
    assert remedies(printed.replace(centres="re-estimated")).startswith("frozen centres, ImageNet weights and Z on")
    assert "the preset paper" in remedies(printed) and "0.0078" in remedies(printed)
    assert "from-random" not in remedies(PRETRAIN_PRESETS["from-random"])
    assert remedies(paper) == "a learning rate below 0.01"
    assert "unit sphere" in remedies(PRETRAIN_PRESETS["imagenet"])


def test_features_of_the_backbone_are_watched_too():
    """An alarm says what collapsed: Z alone, or the features that detectors read."""
    watch, z_alone = CollapseWatch(4), CollapseWatch(4)
    spread = [0.5] * 10 + [0.01] * 5
    alarms = [watch.update(i, 2.0, 0.4, 0.25, h) for i, h in enumerate(spread, 1)]
    assert not any(alarms[:12]) and "50 times closer" in alarms[-1] and "have not collapsed" not in alarms[-1]
    alarms = [z_alone.update(i, z, 0.4, 0.25, 0.5) for i, z in enumerate(spread, 1)]
    assert "the backbone's features, which detectors use, have not collapsed" in alarms[-1]


def test_relative_spread_is_zero_for_one_point_and_one_around_the_origin():
    h = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    assert float(relative_spread(h[:1].expand(50, 8))) < 1e-6
    assert float(relative_spread(h - h.mean(0))) == pytest.approx(1.0)
    assert float(relative_spread(7 * h)) == pytest.approx(float(relative_spread(h)))


@pytest.mark.slow
@pytest.mark.parametrize("stop", [False, True])
def test_an_alarm_ends_a_run_only_where_that_was_asked_for(tmp_path, monkeypatch, stop):
    from core.engine.training import pretraining

    zero = torch.tensor(0.001)
    monkeypatch.setattr(pretraining, "relative_spread", lambda h: zero if len(list_of_steps) > 6 else zero * 1000)
    list_of_steps: list[int] = []
    try:
        train(tmp_path, preset="quick", epochs=4, stop_on_alarm=stop, report=lambda line: list_of_steps.append(1))
        ended = False
    except Diverged as error:
        ended = "collapsed" in str(error)
    assert ended == stop and len(checkpoint.history(tmp_path)) == (10 if stop else 16)
    assert (tmp_path / "encoder.json").is_file() != stop


def train(tmp_path, **changes):
    preset, report = changes.pop("preset"), changes.pop("report", None)
    config = PRETRAIN_PRESETS[preset].replace(
        size=32, batch=8, k=3, snapshot_every=50, **{"encoder.arch": ARCH}, **changes
    )
    return pretrain(normals(32), config, tmp_path, report=report)


@pytest.mark.slow
def test_a_provoked_collapse_is_reported(tmp_path):
    """Centres re-estimated each epoch and a learning rate too high: no such run ends as if all were well."""
    try:
        result = train(tmp_path, preset="as-printed", centres="re-estimated", reestimate_every=1, lr=0.3, epochs=6)
        ended, message = result.collapsed, result.message
    except Diverged as error:  # on some processors the features fall to one point, on others they burst apart
        ended, message = True, str(error)
    alarms = [line["alarm"] for line in checkpoint.history(tmp_path) if line["alarm"]]
    assert ended and any(words in message for words in ("frozen centres", "learning rate below 0.3"))
    assert alarms and any(word in alarms[0] for word in ("collapsed", "is diverging", "broke down"))


@pytest.mark.long
def test_the_same_run_at_a_small_learning_rate_gives_no_alarm(tmp_path):
    result = train(tmp_path, preset="as-printed", centres="re-estimated", reestimate_every=1, lr=0.001, epochs=6)
    assert not any(line["alarm"] for line in result.history) and not result.collapsed


@pytest.mark.slow
def test_a_healthy_run_gives_no_alarm(tmp_path):
    result = train(tmp_path, preset="quick", epochs=5)
    assert not any(line["alarm"] for line in result.history)
    assert not result.collapsed and "without collapse" in result.message
    assert result.history[-1]["l_con"] < result.history[0]["l_con"] - 0.1


@pytest.mark.longest
@pytest.mark.timeout(1800)  # two trainings of 130 steps, minutes each on a busy core
def test_the_text_to_the_letter_collapses_and_the_authors_way_does_not(real, tmp_path):
    """The two presets on the same real frames, 64 px, 8 images a step, with nothing else changed."""
    files = sorted((real("hyperkvasir") / "train" / "normal").iterdir())[:96]
    frames = np.stack(
        [cv2.resize(cv2.imread(str(f)), (64, 64), interpolation=cv2.INTER_AREA)[..., ::-1] for f in files]
    )
    trained = {}
    for preset in ("as-printed", "paper"):
        config = PRETRAIN_PRESETS[preset].replace(size=64, batch=8, steps=130, snapshot_every=1000)
        trained[preset] = pretrain(frames, config, tmp_path / preset)
    alarms = {preset: [line["alarm"] for line in result.history if line["alarm"]] for preset, result in trained.items()}
    accuracy = {p: np.mean([line["aug_accuracy"] for line in r.history[-40:]]) for p, r in trained.items()}
    assert trained["as-printed"].collapsed and "the preset paper" in alarms["as-printed"][0]
    assert not alarms["paper"] and not trained["paper"].collapsed
    assert accuracy["as-printed"] < 0.3 < 0.35 < accuracy["paper"], accuracy
