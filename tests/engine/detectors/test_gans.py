"""What defines the comparators that train networks, against their formulas, and what all of them share."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.calibration.heatmap import mean_inside
from core.engine.detectors.base import FitContext, Prediction
from core.engine.detectors.comparators.autoencoders import TiedAutoEncoder
from core.engine.detectors.comparators.gans import OCGANNet, negatives
from core.engine.detectors.comparators.nets import NetDetector
from core.engine.detectors.igd.model import Reconstruction
from core.engine.registry import DETECTORS
from core.engine.training.base import STEP, generator
from tests.engine._images import normals
from tests.tools.drawing import frame

IMAGES = normals(6, 32)


def built(name, **changes):
    kind = DETECTORS.get(name)
    config = kind.presets["quick"].replace(**{"width": 4, "latent": 8, "batch": 4, **changes})
    torch.manual_seed(0)
    return kind, config, kind.build(None, config, 32)


def test_ocgans_negatives_are_found_by_descent_code_by_code():
    """Each code on its own, its slope by finite differences; all stay within -1..1."""
    _, config, net = built("ocgan")
    assert isinstance(net, OCGANNet)
    net = net.eval()
    net.classifier.last.weight.data.mul_(20)  # a slope that float32 can tell
    net.decoder.last.weight.data.mul_(20)
    codes = 2 * torch.rand(3, 8) - 1
    found = negatives(net, codes, 1, 3.0)

    def loss(code):
        with torch.no_grad():
            return float(torch.nn.functional.softplus(net.classifier(net.decoder(code[None])))[0])

    for code, moved in zip(codes, found, strict=True):
        slope = torch.zeros(8)
        for i in range(8):
            step = torch.zeros(8)
            step[i] = 2e-3
            slope[i] = (loss(code + step) - loss(code - step)) / 4e-3
        assert slope.norm() > 1e-3
        assert torch.allclose(moved, (code - 3.0 * slope).clamp(-1, 1), atol=0.06 * float(3.0 * slope.norm()))
    far = negatives(net, codes, 20, 50.0)
    assert far.abs().max() <= 1
    assert sum(map(loss, far)) < sum(map(loss, codes))


def test_ocgans_codes_are_bounded():
    _, _, net = built("ocgan")
    assert net.encode(100 * torch.rand(2, 3, 32, 32)).abs().max() <= 1


def test_f_anogan_trains_the_gan_first_and_then_the_encoder_alone():
    kind, config, net = built("f-anogan", steps=10, gan=0.5, critic_steps=2)
    training = kind.Training(net, IMAGES, config, torch.device("cpu"), "f-AnoGAN")

    def weights():
        parts = {"generator": net.generator, "critic": net.critic, "code": net.code}
        return {k: torch.cat([p.detach().flatten() for p in part.parameters()]).clone() for k, part in parts.items()}

    moved = []
    for _ in range(10):
        before = weights()
        training.advance()
        moved.append({k for k, v in weights().items() if not torch.equal(v, before[k])})
    critic, both = {"critic"}, {"critic", "generator"}
    assert moved == [critic, both, critic, both, critic] + [{"code"}] * 5


def test_f_anogans_score_is_the_residual_and_the_features():
    kind, config, net = built("f-anogan", kappa=2.0, sigma=0.0)
    detector = kind(net, config, 32)
    x = torch.from_numpy(IMAGES[:3]).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        back = net.generator(3.0 * torch.tanh(net.code(x)))
        f, g = net.critic.features(x), net.critic.features(back)
    expected = [
        float((x[i] - back[i]).square().mean() + 2.0 * (f[i] - g[i]).square().mean()) for i in range(3)
    ]  # A_R + kappa A_D
    np.testing.assert_allclose(detector.image_score(detector.predict(IMAGES[:3])), expected, rtol=1e-4)


def test_f_anogan_as_published_compares_images_in_minus_one_to_one_with_codes_within_one():
    kind = DETECTORS.get("f-anogan")
    published = kind.presets["published"]
    kind, config, net = built("f-anogan", sigma=0.0, **{k: getattr(published, k) for k in PUBLISHED_CODE})
    x = torch.from_numpy(IMAGES[:3]).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        signed = 2 * x - 1
        code = torch.tanh(net.code(signed + 0.5))  # the networks subtract 0.5
        back = 2 * net.generator(code) - 1
        f, g = net.critic.features(signed + 0.5), net.critic.features(back + 0.5)
        pixels, of_features = net.residuals(x)
    assert torch.allclose(pixels, (signed - back).square().mean(1), atol=1e-5)
    assert torch.allclose(of_features, (f - g).square().mean(1), atol=1e-5)
    optimiser = kind.Training(net, IMAGES, config, torch.device("cpu"), "f-AnoGAN").optimisers["opt_code"]
    assert isinstance(optimiser, torch.optim.RMSprop) and optimiser.param_groups[0]["lr"] == 5e-5


PUBLISHED_CODE = ("code_optimiser", "code_lr", "code_bound", "span")


def test_ocgan_as_published_takes_one_step_of_two_through_tanh_late_in_training(monkeypatch):
    published = DETECTORS.get("ocgan").presets["published"]
    assert (published.w_mse, published.w_latent, published.searches, published.rate) == (250, 10, 1, 2)
    kind, config, net = built("ocgan", steps=4, squashed=True, searches=1, rate=2.0, mine_from=0.75)
    codes = 2 * torch.rand(3, 8) - 1
    free = codes.clone().requires_grad_()
    verdict = net.classifier(net.decoder(free.tanh()))
    torch.nn.functional.softplus(verdict).sum().backward()
    assert torch.allclose(negatives(net, codes, 1, 2.0, True), (codes - 2 * free.grad).tanh(), atol=1e-5)
    assert torch.equal(negatives(net, codes, 0, 2.0, True), codes.tanh())
    asked = []
    monkeypatch.setattr(
        "core.engine.detectors.comparators.gans.negatives", lambda _, c, n, *rest: asked.append(n) or c.tanh()
    )
    training = kind.Training(net, IMAGES, config, torch.device("cpu"), "OCGAN")
    for _ in range(4):
        training.advance()
    assert asked == [0, 0, 0, 1]


def test_adgan_goes_there_and_back_both_ways():
    kind, config, net = built("adgan", critic_steps=1, steps=2)
    training = kind.Training(net, IMAGES, config, torch.device("cpu"), "ADGAN")
    x = torch.from_numpy(IMAGES[:4]).permute(0, 3, 1, 2).float() / 255
    z = torch.randn(4, 8, generator=generator(0, STEP))
    net.train()
    with torch.no_grad():
        code, image = net.code(x), net.generator(z)
        cycle = (net.generator(code) - x).abs().mean() + (net.code(image) - z).abs().mean()
    found = training.learn(x, generator(0, STEP))
    assert found["cycle"].item() == pytest.approx(float(cycle), rel=1e-3)
    assert {"distance_images", "distance_codes", "critic", "loss"} <= set(found)


def test_the_ms_ssim_auto_encoders_score_is_its_loss():
    kind, config, net = built("ms-ssim-ae")
    detector = kind(net, config, 32)
    x = torch.from_numpy(IMAGES).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        expected = Reconstruction(11, net.reconstruction.levels, 0.15, "unit")(x, net(x)).numpy()
    p = detector.predict(IMAGES)
    np.testing.assert_allclose(detector.image_score(p), expected, rtol=1e-4)
    half = np.zeros((6, 32, 32), np.uint8)
    half[:, :16] = 1
    np.testing.assert_allclose(detector.image_score(p, half), p.maps[:, :8].mean((1, 2)), rtol=1e-5)
    assert isinstance(p, Prediction)


def slow_convolution(maps, filters, bias):
    """maps (a, s, s), filters (b, a, 3, 3) -> (b, s, s), zero-padded, by loops."""
    side = maps.shape[1]
    wide = np.pad(maps, ((0, 0), (1, 1), (1, 1)))
    out = np.zeros((len(filters), side, side))
    for k in range(len(filters)):
        for i in range(side):
            for j in range(side):
                out[k, i, j] = (wide[:, i : i + 3, j : j + 3] * filters[k]).sum() + bias[k]
    return out


def test_the_way_back_uses_the_same_filters_flipped():
    torch.manual_seed(0)
    net = TiedAutoEncoder(8, width=2, latent=3)  # one layer: 3 -> 3 channels, pooled to 4 cells
    assert len(net.filters) == 1
    for bias in (*net.forth, *net.back):
        bias.data.normal_()
    x = torch.rand(1, 3, 8, 8)
    w, b, c = (p[0].detach().numpy() for p in (net.filters, net.forth, net.back))
    h = np.tanh(slow_convolution(2 * x[0].numpy() - 1, w, b))
    pooled = h.reshape(3, 4, 2, 4, 2).max((2, 4))
    up = pooled.repeat(2, 1).repeat(2, 2)
    flipped = w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    y = np.tanh(slow_convolution(up, flipped, c))
    np.testing.assert_allclose(net(x)[0].detach().numpy(), (y + 1) / 2, atol=1e-5)


def test_an_image_passes_through_few_numbers():
    net = TiedAutoEncoder(64, width=8, latent=5)
    assert len(net.filters) == 4 and net.filters[-1].shape[0] == 5  # 5 x 4 x 4 for 3 x 64 x 64
    assert net(torch.rand(2, 3, 64, 64)).shape == (2, 3, 64, 64)


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
    splits = (("train", 20), ("test_normal", 8))
    drawn = [np.stack([frame(3, split, i, 64).image for i in range(count)]) for split, count in splits]
    return [images.reshape(-1, 32, 2, 32, 2, 3).mean((2, 4)).astype(np.uint8) for images in drawn]


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


def test_the_mean_of_a_region_of_interest():
    maps = torch.arange(32.0).view(2, 4, 4)
    roi = torch.zeros(2, 8, 8, dtype=torch.uint8)
    roi[0, :4, :4] = 1
    inside = mean_inside(maps, roi)
    assert inside[0] == maps[0, :2, :2].mean() and inside[1] == maps[1].mean()
    assert mean_inside(maps, None)[0] == maps[0].mean()
