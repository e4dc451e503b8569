"""Feature reconstruction: what the maps are, on what scale, and that a place unlike the normals is not built back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from core.engine.backbones.encoder import EncoderConfig, build_encoder
from core.engine.config import BadConfig
from core.engine.detectors.reconstruction import Reconstruction, ReconstructionConfig, ReconstructionNet, unlike
from core.engine.phantom.study import draw_study
from tests.conftest import ARCH
from tests.engine._images import normals

CONFIG = ReconstructionConfig(steps=3, batch=4, width=8)


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig(arch=ARCH, seed=1))


@pytest.fixture(scope="module")
def fitted(encoder):
    return Reconstruction.fit(encoder, normals(12, 64), CONFIG)


def test_a_map_is_one_minus_the_cosine_at_each_place():
    seen, built = torch.randn(2, 5, 3, 4), torch.randn(2, 5, 3, 4)
    found = unlike({8: seen}, {8: built})[8].numpy()
    for b, y, x in np.ndindex(2, 3, 4):
        one, two = seen[b, :, y, x].numpy(), built[b, :, y, x].numpy()
        assert found[b, y, x] == pytest.approx(1 - one @ two / np.linalg.norm(one) / np.linalg.norm(two), abs=1e-5)


def test_channels_of_normal_images_have_mean_0_and_deviation_1(fitted):
    x = torch.from_numpy(normals(12, 64)).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        seen = fitted.net.standard(fitted.net.encoder.maps(x))
    for s, m in seen.items():
        assert m.mean((0, 2, 3)).abs().max() < 1e-2, s
        live = fitted.net.get_buffer(f"scale{s}").flatten() > 1e-3
        assert (m.std((0, 2, 3), correction=0)[live] - 1).abs().max() < 1e-2, s


def test_the_code_has_no_more_places_than_the_coarsest_map(encoder):
    net = ReconstructionNet(build_encoder(EncoderConfig(arch=ARCH, seed=1)), CONFIG).eval()
    codes = []
    net.code.register_forward_hook(lambda *args: codes.append(args[2]))
    with torch.no_grad():
        built = net(net.encoder.maps(torch.rand(2, 3, 64, 64)))
    assert codes[0].shape == (2, 8, 2, 2)
    assert {s: tuple(m.shape[1:]) for s, m in built.items()} == {
        s: (encoder.widths[s], 64 // s, 64 // s) for s in built
    }


def test_only_the_decoder_learns_and_the_encoder_stays_in_eval_mode(encoder, fitted):
    before = encoder.state_dict()
    assert all(torch.equal(v, before[k]) for k, v in fitted.net.encoder.state_dict().items())
    fitted.net.train()
    assert not any(m.training for m in fitted.net.encoder.modules()) and fitted.net.code.training
    fitted.net.eval()


def test_a_block_of_noise_is_built_back_worse_than_what_it_hides(encoder):
    drawn = draw_study(3, n_train=16, n_test_normal=4, n_test_abnormal=0, size=64)
    images, others = drawn["train"], drawn["test_normal"]
    found = Reconstruction.fit(encoder, images, CONFIG.replace(steps=150, batch=8, width=16))
    marked = others.copy()
    marked[:, 24:32, 16:24] = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3))
    plain, odd = found.predict(others), found.predict(marked)
    assert plain.maps.shape == (4, 16, 16)
    worse = odd.maps - plain.maps
    there = np.zeros((16, 16), bool)
    there[6:8, 4:6] = True
    assert (worse[:, there].mean(1) > 3 * np.abs(worse[:, ~there]).mean(1)).all()
    assert (found.image_score(odd) > found.image_score(plain)).all()


def test_the_score_is_the_mean_of_the_largest_cells_inside_the_region(fitted):
    prediction = fitted.predict(normals(2, 64, seed=9))
    coarse = prediction.extras["coarse"] = np.arange(32, dtype=np.float32).reshape(2, 4, 4)
    roi = np.zeros((2, 64, 64), np.uint8)
    roi[0, :32, :32] = 1
    assert fitted.image_score(prediction, roi).tolist() == [coarse[0, 1, 1], coarse[1].max()]
    assert fitted.image_score(prediction).tolist() == [15, 31]


def test_what_cannot_be_is_refused():
    for wrong in ({"strides": (16, 8)}, {"strides": ()}, {"strides": (32,)}, {"weight_decay": -1.0}, {"steps": 0}):
        with pytest.raises(BadConfig):
            ReconstructionConfig(**wrong)
