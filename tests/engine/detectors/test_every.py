"""What holds for every registered detector, on tiny images with few steps: a new one is tested by being registered."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import ClassHead, build_encoder
from core.engine.detectors.base import Detector, FitContext, Marks
from core.engine.progress import Stopped
from core.engine.registry import DETECTORS
from tests.conftest import ARCH
from tests.engine._images import normals
from tests.engine.detectors.test_scattered import short

SIDE, COUNT = 32, 20
ALL = sorted([*DETECTORS.names(), "learnt", "class-head"])
OF_NORMALS = [name for name in ALL if name != "learnt"]  # its base is fitted by its own test


def config_of(name: str) -> Any:
    kind = DETECTORS.get(name)
    if name == "learnt":
        return kind.Config(base="padim", steps=12, tune_steps=12, folds=2, width=16)
    return short(kind.preset("quick" if "quick" in kind.presets else None))


def context(**changes: Any) -> FitContext:
    roi = np.ones((COUNT, SIDE, SIDE), np.uint8)
    roi[:, :6] = 0
    return FitContext(roi=roi, **changes)


@pytest.fixture(scope="module")
def fit():
    """Fits a detector by name, once for all tests that change nothing of it."""
    made: dict[str, Detector] = {}

    def fitted(name: str, given: FitContext | None = None) -> Detector:
        if given is None and name in made:
            return made[name]
        encoder = build_encoder(EncoderConfig(arch=ARCH, seed=1, init="random")).eval()
        encoder.class_head = ClassHead(encoder.config.dim, 4, "z", SIDE)
        for weights in encoder.class_head.parameters():
            torch.nn.init.normal_(weights, generator=torch.Generator().manual_seed(0))
        marks = None
        if name == "learnt":
            masks = np.zeros((6, SIDE, SIDE), np.uint8)
            masks[:, 10:20, 10:20] = 1
            images = normals(6, SIDE, seed=3)
            images[masks > 0] = 255
            marks = Marks(images, masks)
        detector = DETECTORS.get(name).fit(
            encoder, normals(COUNT, SIDE), config_of(name), (given or context()).replace(marks=marks)
        )
        if given is None:
            made[name] = detector
        return detector

    return fitted


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_predict_none_one_and_many_images(name, fit):
    """Maps and scores of an image do not depend on the images beside it, up to rounding."""
    detector, shown = fit(name), normals(5, SIDE, seed=2)
    many = detector.predict(shown, batch=2)
    assert many.maps.dtype == np.float32 and many.maps.ndim == 3 and np.isfinite(many.maps).all()
    scores = detector.image_score(many)
    assert scores.shape == (5,) and np.isfinite(scores).all()
    one = detector.predict(shown[3:4])
    close = 1e-4 * max(1.0, float(np.abs(many.maps).max()))
    np.testing.assert_allclose(one.maps[0], many.maps[3], atol=close)
    assert detector.image_score(one)[0] == pytest.approx(scores[3], rel=1e-3, abs=1e-3)
    none = detector.predict(shown[:0])
    assert len(none) == 0 and none.maps.ndim == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_image_score_region_of_interest(name, fit):
    """A region of interest gives finite scores, an empty one too; a whole one gives the maps of none."""
    detector, shown = fit(name), normals(4, SIDE, seed=2)
    roi = np.ones((4, SIDE, SIDE), np.uint8)
    roi[1, :16], roi[2] = 0, 0
    prediction = detector.predict(shown, roi=roi)
    scores = detector.image_score(prediction, roi)
    assert scores.shape == (4,) and np.isfinite(scores).all()
    np.testing.assert_allclose(prediction.maps[0], detector.predict(shown).maps[0], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_save_and_load(name, fit, tmp_path):
    detector, shown = fit(name), normals(4, SIDE, seed=2)
    roi = np.ones((4, SIDE, SIDE), np.uint8)
    roi[:, :8] = 0
    kind = DETECTORS.get(name)
    with pytest.raises(ValueError, match=f"{name}.json"):
        kind.load(tmp_path)
    detector.save(tmp_path)
    again = kind.load(tmp_path)
    assert again.config == detector.config and again.size == detector.size and not again.training
    before, after = detector.predict(shown, roi=roi), again.predict(shown, roi=roi)
    rounding = 1e-6 * max(1.0, float(np.abs(before.maps).max()))
    np.testing.assert_allclose(after.maps, before.maps, rtol=1e-5, atol=rounding)
    np.testing.assert_allclose(again.image_score(after, roi), detector.image_score(before, roi), rtol=1e-5, atol=1e-6)
    state = detector.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in again.state_dict().items())
    again.save(tmp_path / "again")
    assert {p.name for p in (tmp_path / "again").iterdir()} == {p.name for p in tmp_path.iterdir()} - {"again"}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_NORMALS)
def test_fit_stopped_at_once_leaves_no_detector(name, fit, tmp_path):
    with pytest.raises(Stopped):
        fit(name, context(folder=tmp_path, should_stop=lambda: True))
    assert not (tmp_path / f"{name}.json").exists()


@pytest.mark.long
@pytest.mark.parametrize("name", OF_NORMALS)
def test_fit_stopped_and_resumed_equals_undisturbed(name, fit, tmp_path):
    reports: list[Any] = []
    stop = context(folder=tmp_path, report=reports.append, should_stop=lambda: len(reports) >= 1)
    with contextlib.suppress(Stopped):  # a fit of one step does not ask again
        fit(name, stop)
    resumed, alone, shown = fit(name, context(folder=tmp_path)), fit(name), normals(4, SIDE, seed=2)
    np.testing.assert_allclose(resumed.predict(shown).maps, alone.predict(shown).maps, rtol=1e-5, atol=1e-6)
