"""What every detector with networks of its own must do, on drawn images of 32 pixels: learn, resume, be kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.base import FitContext
from core.engine.detectors.comparators.nets import NetDetector, mean_inside
from core.engine.phantom.frame import draw_study
from core.engine.progress import Stopped
from core.engine.registry import DETECTORS

NAMES = [name for name in DETECTORS.names() if issubclass(DETECTORS.get(name), NetDetector)]
LEARNS = {  # steps that a tiny network takes to do better than at first
    "dae": {"steps": 50, "lr": 5e-3},
    "ms-ssim-ae": {"steps": 60, "lr": 5e-3},
    "ocgan": {"steps": 60, "lr": 5e-3, "searches": 1},
    "f-anogan": {"steps": 200, "lr": 5e-3, "gan": 0.6, "critic_steps": 2, "kappa": 0.1},
    "adgan": {"steps": 60, "lr": 3e-3, "critic_steps": 1},
    "panda": {"steps": 12, "clip": 1.0},
}  # CutPaste's classes take longer from random weights; its own test has it learn one batch


@pytest.fixture(scope="module")
def frames():
    """(20 normals to learn from, 8 others): phantoms of 64 pixels, halved."""
    drawn = draw_study(3, n_train=20, n_test_normal=8, n_test_abnormal=0, size=64)
    return [drawn[k].reshape(-1, 32, 2, 32, 2, 3).mean((2, 4)).astype(np.uint8) for k in ("train", "test_normal")]


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig(seed=1))


def small(name, **changes):
    kind = DETECTORS.get(name)
    return kind, kind.presets["quick"].replace(**{"batch": 8, "width": 4, "latent": 8, **changes})


def test_the_papers_comparators_are_registered():
    assert {*LEARNS, "cutpaste"} <= set(NAMES)
    for name in NAMES:
        assert {"paper", "quick"} <= set(DETECTORS.get(name).presets)


@pytest.mark.long
@pytest.mark.parametrize("name", LEARNS)
def test_it_learns_normal_images_better_than_its_untrained_self(name, frames, encoder):
    """By what it lowers: residuals of unseen normal images, PANDA's distances."""
    images, unseen = frames
    seen: list = []
    kind, config = small(name, **LEARNS[name])
    first = kind.fit(encoder, images, config.replace(steps=1, lr=1e-9))
    done = kind.fit(encoder, images, config, FitContext(report=seen.append))
    assert [v["step"] for v in seen] == list(range(1, config.steps + 1)) and all(v["loss"] is not None for v in seen)
    found = [(d, d.predict(unseen)) for d in (first, done)]
    before, after = (d.image_score(p).mean() if name == "panda" else p.maps.mean() for d, p in found)
    assert after < 0.95 * before


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_stopped_and_resumed_is_the_same_as_undisturbed_and_kept(name, frames, encoder, tmp_path):
    images, unseen = frames
    kind, config = small(name, steps=4)
    seen: list = []
    stop = FitContext(folder=tmp_path, report=seen.append, should_stop=lambda: len(seen) >= 2)
    with pytest.raises(Stopped, match="goes on from there"):
        kind.fit(encoder, images, config, stop)
    resumed = kind.fit(encoder, images, config, FitContext(folder=tmp_path, report=seen.append))
    assert [v["step"] for v in seen] == [1, 2, 3, 4]
    one, two = (d.predict(unseen) for d in (kind.fit(encoder, images, config), resumed))
    np.testing.assert_array_equal(one.maps, two.maps)

    resumed.save(tmp_path)
    assert not (tmp_path / "partial").exists()
    again = kind.load(tmp_path)
    np.testing.assert_array_equal(again.image_score(again.predict(unseen)), resumed.image_score(two))
    assert two.maps.shape[0] == len(unseen) and np.isfinite(two.maps).all() and two.maps.dtype == np.float32
    assert len(again.predict(unseen[:0])) == 0
    with pytest.raises(ValueError, match="fitted on 32 x 32"):
        again.predict(np.zeros((1, 64, 64, 3), np.uint8))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["panda", "cutpaste"])
def test_it_starts_from_the_given_encoder_and_leaves_that_alone(name, frames, encoder):
    kind, config = small(name, steps=1, lr=1e-9)
    before = {k: v.clone() for k, v in encoder.state_dict().items()}
    fitted = kind.fit(encoder, frames[0], config)
    assert all(torch.equal(v, before[k]) for k, v in encoder.state_dict().items())
    assert torch.allclose(fitted.net.encoder.net.conv1.weight, encoder.net.conv1.weight, atol=1e-6)


def test_the_mean_of_a_region_of_interest():
    maps = np.arange(32, dtype=np.float32).reshape(2, 4, 4)
    roi = np.zeros((2, 8, 8), np.uint8)
    roi[0, :4, :4] = 1
    inside = mean_inside(maps, roi)
    assert inside[0] == maps[0, :2, :2].mean() and inside[1] == maps[1].mean()
    assert mean_inside(maps, None)[0] == maps[0].mean()
