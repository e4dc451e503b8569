"""AnomalyDINO and Dinomaly on small vision transformers of random weights."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.anomaly_dino import AnomalyDINO, AnomalyDINOConfig, foreground, highest
from core.engine.detectors.base import FitContext
from core.engine.detectors.dinomaly import EASY, Dinomaly, LinearAttention, grouped, mined_loss
from core.engine.progress import Stopped
from tests.conftest import ARCH
from tests.engine._images import normals

SIZE = 64


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig(arch="vit_tiny_patch16_224", seed=1)).eval()


@pytest.fixture(scope="module")
def images():
    return normals(12, SIZE)


def spoilt(images):
    """The same with a checkerboard at the lower right."""
    out = images.copy()
    out[:, 40:56, 40:56] = (np.indices((16, 16)).sum(0) % 4 < 2)[None, ..., None] * 255
    return out


def test_tokens_are_the_last_layers_own(encoder):
    x = torch.rand(2, 3, SIZE, SIZE)
    with torch.inference_mode():
        found, blocks = encoder.tokens(x), encoder.blocks(x, 8)
        wanted = encoder.net.forward_features(encoder.normalise(x))[:, 1:]
    assert found.shape == (2, 192, 4, 4) and len(blocks) == 8
    torch.testing.assert_close(found.flatten(2).transpose(1, 2), wanted, rtol=1e-4, atol=1e-5)
    assert encoder.tokens(torch.rand(1, 3, 70, 70)).shape == (1, 192, 5, 5), "the next side that patches fill"
    conv = build_encoder(EncoderConfig(arch=ARCH))
    assert conv.tokens(x).shape[2:] == (4, 4)
    with pytest.raises(ValueError, match="no vision transformer"):
        conv.blocks(x, 8)


@pytest.mark.parametrize(("depth", "wanted"), [(12, range(2, 10)), (24, range(4, 19, 2))])
def test_the_middle_layers_of_twelve_and_of_twenty_four(encoder, depth, wanted):
    taken = []

    class Spy:
        feature_info = ({"reduction": 16},) * depth
        patch_embed = SimpleNamespace(patch_size=(16, 16))

        def forward_intermediates(self, x, indices, **options):
            taken.extend(indices)
            return []

    encoder.arch.blocks(Spy(), torch.zeros(1, 3, 32, 32), 8)
    assert taken == list(wanted)


def test_anomaly_dino_is_a_cosine_to_the_nearest_normal_patch(encoder, images, tmp_path):
    fitted = AnomalyDINO.fit(encoder, images, AnomalyDINOConfig(batch=5))
    shown = np.concatenate([images[:1], spoilt(images[1:3])])
    found = fitted.predict(shown)
    with torch.inference_mode():
        x = torch.from_numpy(np.concatenate([images, shown])).permute(0, 3, 1, 2).float() / 255
        tokens = F.normalize(encoder.tokens(x), dim=1).flatten(2).transpose(1, 2)
    bank, asked = tokens[: len(images)].flatten(0, 1), tokens[len(images) :]
    wanted = 1 - (asked @ bank.T).amax(2)  # (3, 16)
    np.testing.assert_allclose(found.extras["distance"].reshape(3, -1), wanted.numpy(), atol=1e-5)
    scores = fitted.image_score(found)
    np.testing.assert_allclose(scores, wanted.max(1).values.numpy(), atol=1e-5)  # a hundredth of 16 is one
    assert scores[0] < 1e-5 < scores[1:].min() and found.maps[1:].reshape(2, -1).argmax(1).tolist() == [10, 10]
    fitted.save(tmp_path)
    again = AnomalyDINO.load(tmp_path)
    np.testing.assert_array_equal(again.image_score(again.predict(shown)), scores)
    assert len(again.predict(shown[:0])) == 0
    with pytest.raises(Stopped):
        AnomalyDINO.fit(encoder, images, AnomalyDINOConfig(), FitContext(should_stop=lambda: True))


def test_the_region_of_interest_and_the_pool_bound_what_is_kept(encoder, images):
    roi = np.ones((len(images), SIZE, SIZE), np.uint8)
    roi[:, :, :32] = 0
    fitted = AnomalyDINO.fit(encoder, images, AnomalyDINOConfig(), FitContext(roi=roi))
    assert len(fitted.memory.features) == len(images) * 8
    small = AnomalyDINO.fit(encoder, images, AnomalyDINOConfig(pool=20))
    assert len(small.memory.features) == 20
    assert highest(np.arange(200.0)[None, None], None).tolist() == [198.5]


def test_the_foreground_is_what_stands_out_in_the_middle():
    tokens = torch.randn(2, 12, 12, 8, generator=torch.Generator().manual_seed(0)) * 0.1
    tokens[:, 3:9, 3:9, 0] += 5
    tokens[1] *= -1
    inside = foreground(tokens)
    assert inside[:, 2:10, 2:10].all() and not inside[:, :2].any() and not inside[:, :, -2:].any()


def test_linear_attention_is_the_slow_sum():
    torch.manual_seed(0)
    layer, x = LinearAttention(8, 2), torch.randn(1, 5, 8)
    q, k, v = (part.view(5, 2, 4) for part in layer.qkv(x)[0].chunk(3, 1))
    out = torch.zeros(5, 2, 4)
    for i in range(5):
        for head in range(2):
            w = torch.stack([(F.elu(q[i, head]) + 1) @ (F.elu(k[j, head]) + 1) for j in range(5)])
            out[i, head] = (w / w.sum()) @ v[:, head]
    torch.testing.assert_close(layer(x)[0], layer.proj(out.flatten(1)))


def test_places_rebuilt_well_keep_a_tenth_of_their_gradient():
    torch.manual_seed(0)
    a, b = torch.randn(2, 3, 4, 4), torch.randn(2, 3, 4, 4, requires_grad=True)
    plain, mined = mined_loss([a], [b], 0.0), mined_loss([a], [b], 0.75)
    assert torch.equal(plain, mined)
    wanted = 1 - F.cosine_similarity(a.flatten(1), b.flatten(1))
    torch.testing.assert_close(plain, wanted.mean())
    (full,), (cut,) = torch.autograd.grad(plain, b), torch.autograd.grad(mined, b)
    ratio = (cut / full)[:, 0].flatten()
    easy = 1 - F.cosine_similarity(a, b, dim=1).flatten()
    least = easy < easy.quantile(0.75)
    torch.testing.assert_close(ratio[least], torch.full_like(ratio[least], EASY))
    torch.testing.assert_close(ratio[~least], torch.ones_like(ratio[~least]))
    assert [g.mean().item() for g in grouped([torch.full((1, 1, 1, 1), float(i)) for i in range(8)])] == [1.5, 5.5]


@pytest.mark.long
def test_dinomaly_learns_to_rebuild_normal_images_and_not_others(encoder, images):
    config = Dinomaly.presets["quick"].replace(steps=60, batch=6)
    seen = []
    fitted = Dinomaly.fit(encoder, images, config, FitContext(report=seen.append))
    assert seen[-1]["loss"] < 0.5 * seen[0]["loss"]
    assert all(torch.equal(v, encoder.state_dict()[n]) for n, v in fitted.net.encoder.state_dict().items())
    found = fitted.predict(np.concatenate([images[:4], spoilt(images[4:8])]))
    scores = fitted.image_score(found)
    assert scores[4:].min() > scores[:4].max()
    with pytest.raises(ValueError, match="no vision transformer"):
        Dinomaly.fit(build_encoder(EncoderConfig(arch=ARCH)), images, config)
