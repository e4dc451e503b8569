"""IGD: learns, resumes exactly, saves and loads, and respects a region of interest."""

import numpy as np
import pytest
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder, save_encoder
from core.engine.config import BadConfig
from core.engine.detectors.base import FitContext
from core.engine.detectors.igd.igd import IGD
from core.engine.detectors.igd.model import IGDConfig
from core.engine.detectors.reference import s_igd
from core.engine.progress import Stopped
from core.engine.training.base import Diverged
from tests.conftest import ARCH

SMALL = IGDConfig(width=4, critic_width=4, latent=16, epochs=3, batch=4, lr=1e-3, patches=2, reestimate=2)
BOTH = SMALL.replace(local_from=64)


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig(arch=ARCH, seed=1))


@pytest.fixture(scope="module")
def images():
    """12 images of 64 px: a smooth background that varies, and noise."""
    draw = np.random.default_rng(0)
    y, x = np.mgrid[:64, :64] / 64
    tilt = draw.uniform(-1, 1, (12, 2))
    shade = 120 + 60 * (tilt[:, :1, None] * x + tilt[:, 1:, None] * y)
    return np.clip(shade[..., None] * (1.2, 0.9, 0.8) + draw.normal(0, 4, (12, 64, 64, 3)), 0, 255).astype(np.uint8)


def weights(igd):
    models = [m for m in (igd.whole, igd.local) if m is not None]
    return [v for m in models for v in m.state_dict().values()]


def first_layer(encoder):
    return next(encoder.net.parameters())


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(weights(a), weights(b), strict=True))


@pytest.mark.long
def test_it_learns_to_reconstruct_and_to_gather(encoder, images):
    seen = []
    IGD.fit(encoder, images, SMALL.replace(epochs=30, width=8), FitContext(report=seen.append))
    first, last = ([np.mean([v[k] for v in part]) for k in ("rec", "gauss")] for part in (seen[:6], seen[-6:]))
    assert last[0] < 0.8 * first[0] and last[1] < 0.9 * first[1]
    assert {"loss", "rec", "gauss", "reg", "critic", "lr", "stage", "step", "steps"} <= set(seen[0])
    assert [v["step"] for v in seen] == list(range(1, 91)) and seen[0]["steps"] == 90
    assert seen[0]["lr"] == pytest.approx(1e-3) and seen[45]["lr"] == pytest.approx(1e-3 * 0.5**0.9)


@pytest.mark.slow
def test_every_part_learns(encoder, images):
    start = IGD._build(BOTH, 64, encoder, None, "cpu")
    end = IGD.fit(encoder, images, BOTH)
    for a, b in ((start.whole, end.whole), (start.local, end.local)):
        for part in ("code", "generator", "critic"):
            before, after = getattr(a, part).named_parameters(), dict(getattr(b, part).named_parameters())
            assert all(not torch.equal(value, after[name]) for name, value in before), part
        assert all(torch.equal(x, y) for x, y in zip(a.encoder.parameters(), b.encoder.parameters(), strict=True))


@pytest.mark.slow
def test_a_tuned_encoder_learns_and_the_given_one_is_left_alone(encoder, images, tmp_path):
    before = {k: v.clone() for k, v in encoder.state_dict().items()}
    igd = IGD.fit(encoder, images, SMALL.replace(encoder="tuned"))
    assert all(torch.equal(v, before[k]) for k, v in encoder.state_dict().items())
    assert not torch.equal(first_layer(igd.whole.encoder), first_layer(encoder))
    assert not torch.equal(igd.whole.encoder.net.bn1.running_mean, encoder.net.bn1.running_mean)
    igd.save(tmp_path)
    assert same(igd, IGD.load(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("config", [SMALL, BOTH, SMALL.replace(encoder="tuned")])
@pytest.mark.parametrize("stop", [4, 7])
def test_stopped_and_resumed_is_the_same_as_undisturbed(encoder, images, tmp_path, config, stop):
    undisturbed = IGD.fit(encoder, images, config)
    seen: list = []
    with pytest.raises(Stopped, match="it resumes there"):
        IGD.fit(
            encoder,
            images,
            config,
            FitContext(folder=tmp_path, report=seen.append, should_stop=lambda: len(seen) >= stop),
        )
    assert len(seen) == stop
    resumed = IGD.fit(encoder, images, config, FitContext(folder=tmp_path, report=seen.append))
    assert [v["step"] for v in seen] == list(range(1, seen[0]["steps"] + 1))  # nothing twice, nothing left out
    assert same(undisturbed, resumed)


@pytest.mark.slow
def test_another_configuration_begins_anew(encoder, images, tmp_path):
    with pytest.raises(Stopped):
        IGD.fit(encoder, images, SMALL, FitContext(folder=tmp_path, should_stop=lambda: True))
    other = SMALL.replace(seed=9)
    assert same(IGD.fit(encoder, images, other, FitContext(folder=tmp_path)), IGD.fit(encoder, images, other))


@pytest.mark.slow
def test_other_images_begin_anew(encoder, images, tmp_path):
    seen: list = []
    stop = FitContext(folder=tmp_path, report=seen.append, should_stop=lambda: len(seen) >= 1)
    with pytest.raises(Stopped):
        IGD.fit(encoder, images, SMALL, stop)
    other = images.copy()
    other[-1, 0, 0, 0] ^= 1
    resumed = IGD.fit(encoder, other, SMALL, FitContext(folder=tmp_path, report=seen.append))
    assert [v["step"] for v in seen[:2]] == [1, 1] and same(resumed, IGD.fit(encoder, other, SMALL))


def test_a_training_that_diverges_says_so(encoder, images):
    with pytest.raises(Diverged, match="IGD broke down at step .*Start again with a learning rate below"):
        IGD.fit(encoder, images, SMALL.replace(lr=1e30, epochs=4))


@pytest.mark.slow
def test_scores_by_their_formulas(encoder, images):
    igd = IGD.fit(encoder, images, BOTH)
    p = igd.predict(images[:5], batch=2)
    x = torch.from_numpy(images[:5]).permute(0, 3, 1, 2).float() / 255
    rec, gauss, residual = igd.whole.judge(x)
    grid = igd.grid
    scores, local = [], torch.zeros(5, 64, 64)
    cover = torch.zeros(64, 64)
    for top, left in grid.corners:
        r, g, m = igd.local.judge(x[:, :, top : top + 32, left : left + 32])
        scores.append(s_igd(r, g, xi=0.9))
        local[:, top : top + 32, left : left + 32] += m
        cover[top : top + 32, left : left + 32] += 1
    expected = 0.5 * torch.stack(scores).max(0).values + 0.5 * s_igd(rec, gauss, xi=0.1)
    np.testing.assert_allclose(igd.image_score(p), expected.numpy(), rtol=1e-4)
    heat = 0.5 * residual + 0.5 * local / cover
    np.testing.assert_allclose(p.maps, torch.nn.functional.avg_pool2d(heat[:, None], 2)[:, 0], rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_score_in_a_region_of_interest(encoder, images):
    igd = IGD.fit(encoder, images, BOTH)
    spotted = images[:4].copy()
    spotted[:, 40:60, 40:60] = np.random.default_rng(1).integers(0, 256, (4, 20, 20, 3))
    p = igd.predict(spotted)
    everywhere, elsewhere = np.ones((4, 64, 64), np.uint8), np.ones((4, 64, 64), np.uint8)
    elsewhere[:, 24:, 24:] = 0
    np.testing.assert_allclose(igd.image_score(p, everywhere), igd.image_score(p), rtol=1e-5)
    assert (igd.image_score(p, elsewhere) < igd.image_score(p)).all()
    nowhere = np.zeros((4, 64, 64), np.uint8)
    np.testing.assert_allclose(igd.image_score(p, nowhere), igd.image_score(p), rtol=1e-5)


@pytest.mark.slow
def test_the_local_model_takes_its_own_encoder(encoder, images, tmp_path):
    other = build_encoder(EncoderConfig(arch=ARCH, seed=77))
    save_encoder(other, tmp_path / "local")
    igd = IGD.fit(encoder, images, BOTH.replace(local_encoder=str(tmp_path / "local")))
    assert torch.equal(first_layer(igd.local.encoder), first_layer(other))
    assert torch.equal(first_layer(igd.whole.encoder), first_layer(encoder))
    igd.save(tmp_path / "fit")
    assert same(igd, IGD.load(tmp_path / "fit"))


def test_mistakes_are_named(encoder, images):
    with pytest.raises(ValueError, match="32 pixels"):
        IGD.fit(encoder, images[:, :16, :16], SMALL)
    for bad in ({"encoder": "thawed"}, {"space": "lab"}, {"batch": 1}, {"window": 4}, {"xi": 1.5}):
        with pytest.raises(BadConfig):
            IGDConfig(**bad)
