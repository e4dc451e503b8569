"""What `bench peers` gives to anomalib, and what it says without it; its figures are measured, not tested."""

import numpy as np
import pytest
import timm
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from tests.benches import _anomalib, peers


def test_without_the_peers_environment_the_command_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PMSACL_PEERS", str(tmp_path / "python"))
    with pytest.raises(ValueError, match="requirements-bench.txt"):
        peers.peers(quick=True)


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig(arch="efficientnet-lite0", init="random", seed=3)).eval()


def test_weights_fill_a_network_that_anomalib_builds_and_give_the_same_maps(encoder):
    class Model:
        class feature_extractor:
            feature_extractor = timm.create_model("tf_efficientnet_lite0", features_only=True, out_indices=(1, 2, 3))

    net = _anomalib.filled(Model, peers._weights(encoder)).feature_extractor.feature_extractor.eval()
    x = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        ours = encoder.maps(x, (4, 8, 16))
        theirs = net(encoder.normalise(x))
    for one, other in zip(ours.values(), theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-4)


def test_distances_before_the_blur_are_those_of_the_joined_features(encoder):
    """As anomalib computes them: nearest up-sampling, covariance of n - 1, its inverse, one position after another."""
    images = np.random.default_rng(0).integers(0, 255, (8, 64, 64, 3), dtype=np.uint8)
    padim = PaDiM.fit(encoder, images[:6], PaDiMConfig(channels=12))
    found = peers._plain(padim, images[6:])
    with torch.inference_mode():
        x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
        maps = encoder.maps(x, (4, 8, 16))
        parts = [maps[s].index_select(1, i) for s, i in padim.kept.items()]
        joined = torch.cat([torch.nn.functional.interpolate(p, found.shape[1:]) for p in parts], 1).double().numpy()
    for y, x in ((0, 0), (3, 9), (15, 15)):
        normal, new = joined[:6, :, y, x], joined[6:, :, y, x]
        inverse = np.linalg.inv(np.cov(normal, rowvar=False) + 0.01 * np.eye(12))
        centred = new - normal.mean(0)
        assert found[:, y, x] == pytest.approx(np.sqrt((centred @ inverse * centred).sum(1)), rel=1e-3)
