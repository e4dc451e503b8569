"""What holds for every registered detector, on tiny images with few steps: a new one is tested by being registered."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import ClassHead, build_encoder
from core.engine.detectors.base import Detector, FitContext, Marks
from core.engine.detectors.map_detector import MapDetector
from core.engine.progress import Stopped
from core.engine.registry import DETECTORS
from core.engine.rows import Some
from tests.conftest import ARCH
from tests.engine._images import normals

SIDE, COUNT = 32, 20
ALL = sorted([*DETECTORS.names(), "learnt", "class-head"])
OF_NORMALS = [name for name in ALL if name != "learnt"]  # its base is fitted by its own test
COUNTS = ("steps", "max_steps", "critic_steps")
NARROW = {"width": 4, "critic_width": 4, "latent": 16, "patches": 20, "batch": 4}
FAKES = {"families": ["medmix"], "held_out": ["medmix:lens"]}
ALIKE = {  # they read images by what one of the others reads them by: members of others, and those of `learnt`
    *("combined", "ensemble", "padim", "nearest", "mahalanobis", "adgan", "f-anogan", "ms-ssim-ae", "ocgan"),
}
SHORT = {**dict.fromkeys(COUNTS, 2), **NARROW, **FAKES}


def short(config):
    """The same configuration with few steps, narrow networks and one kind of fake lesions, where it has them.

    Those of an ensemble's members are shortened too.
    """
    return config.replace(**{path: SHORT[path.rpartition(".")[2]] for path in shortened(config.to_dict())})


def shortened(settings: dict, above: str = "") -> Iterator[str]:
    """Dotted paths of the settings that SHORT names."""
    for name, value in settings.items():
        if name in SHORT:
            yield above + name
        elif isinstance(value, dict):
            yield from shortened(value, f"{above}{name}.")


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
    """Fits a detector by name, once for all tests that change nothing of it. The given encoder is left alone."""
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
        before = {key: value.clone() for key, value in encoder.state_dict().items()}
        detector = DETECTORS.get(name).fit(
            encoder, normals(COUNT, SIDE), config_of(name), (given or context()).replace(marks=marks)
        )
        assert all(torch.equal(value, before[key]) for key, value in encoder.state_dict().items())
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
    if detector.size:
        with pytest.raises(ValueError, match="fitted on 32 x 32"):
            detector.predict(normals(1, 64))


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
@pytest.mark.parametrize("name", ["igd", "lesion-head", "dae"])
@pytest.mark.parametrize("change", ["shape", "name", "gone"])
def test_a_tensor_that_does_not_fit_is_refused_in_words(name, change, fit, tmp_path):
    fit(name).save(tmp_path)
    file = tmp_path / f"{name}.safetensors"
    tensors = load_file(file)
    key = max(tensors, key=lambda key: tensors[key].numel())
    tensor = tensors.pop(key)
    save_file(tensors | {"shape": {key: tensor[:1].clone()}, "name": {"other": tensor}, "gone": {}}[change], file)
    with pytest.raises(ValueError, match="saved with another configuration"):
        DETECTORS.get(name).load(tmp_path)


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
    resumed = fit(name, context(folder=tmp_path, report=reports.append))
    if not issubclass(DETECTORS.get(name), MapDetector) and name != "blend":  # those start again: they take one pass
        assert [r["step"] for r in reports] == list(range(1, reports[0]["steps"] + 1)), "no step twice"
    resumed.save(tmp_path)
    assert not (tmp_path / "partial").exists()
    alone, shown = fit(name), normals(4, SIDE, seed=2)
    np.testing.assert_allclose(resumed.predict(shown).maps, alone.predict(shown).maps, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", sorted(set(OF_NORMALS) - {"class-head", "nearest"}))
def test_too_few_images_are_refused(name):
    encoder = build_encoder(EncoderConfig(arch=ARCH)).eval()
    with pytest.raises(ValueError, match="at least"):
        DETECTORS.get(name).fit(encoder, normals(1, SIDE), config_of(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["padim", "igd", "lesion-head"])
def test_another_backbone(name, tmp_path):
    encoder, shown = build_encoder(EncoderConfig(arch="efficientnet-lite0")), normals(3, 64)
    config = config_of(name).replace(**({"local_from": 64} if name == "igd" else {}))
    fitted = DETECTORS.get(name).fit(encoder, normals(COUNT, 64), config)
    fitted.save(tmp_path)
    maps = fitted.predict(shown).maps
    np.testing.assert_allclose(DETECTORS.get(name).load(tmp_path).predict(shown).maps, maps, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(DETECTORS.names()) - ALIKE))
def test_scattered_rows_are_fitted_as_an_array_is(name, tmp_path):
    """Images that are read row by row, as those of a large study are, are fitted as an array of them."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (30, SIDE, SIDE, 3), np.uint8)
    roi = np.ones((30, SIDE, SIDE), np.uint8)
    roi[:, :3] = 0
    index = np.r_[0:9, 12:27]
    kind = DETECTORS.get(name)
    scores = []
    for i, (x, inside) in enumerate([(images[index], roi[index]), (Some(images, index), Some(roi, index))]):
        encoder = build_encoder(EncoderConfig(arch=ARCH)).eval()
        detector = kind.fit(encoder, x, short(kind.Config()), FitContext(inside, "cpu", folder=tmp_path / str(i)))
        scores.append(detector.image_score(detector.predict(images[:4], roi=roi[:4]), roi[:4]))
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-5)
