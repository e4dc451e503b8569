"""The Mahalanobis detector against its definition, written out with scikit-learn on all features at once."""

import numpy as np
import pytest
import torch
from sklearn.covariance import OAS

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.base import FitContext
from core.engine.detectors.mahalanobis import Mahalanobis, MahalanobisConfig, Scatter
from core.engine.tensors import to_batch
from tests.conftest import ARCH
from tests.engine._images import normals


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig(arch=ARCH, seed=3))


def pooled_of(encoder, images):
    with torch.inference_mode():
        maps = encoder.maps(to_batch(images, torch.device("cpu")), (4, 8, 16, 32))
    return torch.cat([m.mean((2, 3)) for m in maps.values()], 1).double().numpy()


def test_scatter_in_batches_is_scikit_learns_shrunk_gaussian():
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 7)) @ np.diag([1, 2, 3, 4, 5, 6, 7.0]))
    scatter = Scatter()
    for part in x.split(9):
        scatter.add(part)
    got, want = scatter.normal(), OAS().fit(x.numpy())
    expected = np.sqrt(want.mahalanobis(x.numpy()))
    np.testing.assert_allclose(got.distance(x.float()).numpy(), expected, rtol=2e-4)


def test_the_score_is_the_distance_of_pooled_features(encoder):
    images, others = normals(24, 32), normals(6, 32, 9)
    detector = Mahalanobis.fit(encoder, images, MahalanobisConfig(batch=7))
    want = OAS().fit(pooled_of(encoder, images)).mahalanobis(pooled_of(encoder, others)) ** 0.5
    prediction = detector.predict(others, batch=4)
    np.testing.assert_allclose(detector.image_score(prediction), want, rtol=5e-3)
    assert prediction.maps.shape == (6, 2, 2) and np.isfinite(prediction.maps).all()


def test_what_lies_outside_the_region_of_interest_does_not_count(encoder):
    images = normals(24, 64)
    roi = np.zeros((24, 64, 64), np.uint8)
    roi[:, :, 32:] = 1
    near = MahalanobisConfig(strides=(4, 8), map_strides=(8,))  # their cells see little of what lies beside
    detector = Mahalanobis.fit(encoder, images, near, FitContext(roi=roi))
    changed = images[:4].copy()
    changed[:, :20, :4] = 255
    scores = [detector.image_score(detector.predict(x, roi=roi[:4]), roi[:4]) for x in (images[:4], changed)]
    whole = [detector.image_score(detector.predict(x, roi=roi[:4])) for x in (images[:4], changed)]
    assert np.abs(scores[1] - scores[0]).max() < 0.5 * np.abs(whole[1] - whole[0]).max()
