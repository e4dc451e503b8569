"""PANDA: the compactness loss, what is frozen, and the distance to the nearest normal features."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.comparators.panda import PANDA, PANDAConfig, PANDANet, compactness
from tests.conftest import ARCH
from tests.engine._images import normals


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig(arch=ARCH, seed=1))


def features_of(net, images):
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        return net.encoder.backbone(x).numpy()


def test_the_loss_is_the_mean_squared_distance_from_the_centre():
    f, c = torch.randn(5, 7), torch.randn(7)
    slow = sum(sum((float(a) - float(b)) ** 2 for a, b in zip(row, c, strict=True)) for row in f) / 5
    assert float(compactness(f, c)) == pytest.approx(slow, rel=1e-5)


@pytest.mark.parametrize(("preset", "power"), [("paper", 1), ("published", 2)])
def test_the_score_is_the_sum_of_distances_to_two_neighbours(encoder, preset, power):
    images, others = normals(12, 32), normals(5, 32, seed=8)
    panda = PANDA.fit(encoder, images, PANDA.presets[preset].replace(steps=2, batch=4))
    near = NearestNeighbors(n_neighbors=2).fit(features_of(panda.net, images))
    expected = (near.kneighbors(features_of(panda.net, others))[0] ** power).sum(1)
    np.testing.assert_allclose(panda.image_score(panda.predict(others)), expected, rtol=1e-3)


def test_the_last_two_blocks_learn_and_nothing_else(encoder):
    net = PANDANet(build_encoder(EncoderConfig(arch=ARCH, seed=1)), 8)
    learnt = {name.split(".")[1] for name, p in net.encoder.named_parameters() if p.requires_grad}
    assert learnt == {"layer3", "layer4"}
    before = {k: v.clone() for k, v in encoder.state_dict().items()}
    panda = PANDA.fit(encoder, normals(6, 32), PANDAConfig(steps=1, batch=4, clip=1.0))
    changed = {k.split(".")[1] for k, v in panda.net.encoder.state_dict().items() if not torch.equal(v, before[k])}
    assert changed == {"layer3", "layer4"}
