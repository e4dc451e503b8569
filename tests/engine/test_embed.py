"""Features, their centring, and neighbours: against slow, plain versions and scikit-learn's brute force."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from core.engine import embed
from core.engine.detectors.base import Stopped
from core.engine.encoder import EncoderConfig, build_encoder


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig(seed=3))


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 255, (7, 32, 32, 3), np.uint8)


def test_features_do_not_depend_on_the_batch_and_equal_the_encoders_own(encoder, images):
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    encoder.eval()
    with torch.no_grad():
        z, h = encoder(x).numpy(), encoder.backbone(x).numpy()
    for kind, right in (("projected", z), ("backbone", h)):
        for batch in (3, 64):
            found = embed.encode(encoder, images, kind, batch=batch)
            np.testing.assert_allclose(found, right, atol=2e-5)
    assert z.shape == (7, 128) and h.shape == (7, 512)


def test_encode_reports_and_stops(encoder, images):
    told = []
    embed.encode(encoder, images, batch=4, report=lambda i, n: told.append((i, n)))
    assert told == [(4, 7), (7, 7)]
    with pytest.raises(Stopped):
        embed.encode(encoder, images, should_stop=lambda: True)
    with pytest.raises(ValueError, match="projected or backbone"):
        embed.encode(encoder, images, "centred")
    with pytest.raises(ValueError, match="no images"):
        embed.encode(encoder, images[:0])


def test_centred_is_the_equation_row_by_row():
    rng = np.random.default_rng(1)
    f, c, n = rng.normal(size=(9, 5)), rng.normal(size=(4, 5)), rng.integers(0, 4, 9)
    found = embed.centred(f, c, n)
    for i in range(9):
        d = f[i] - c[n[i]]
        np.testing.assert_allclose(found[i], d / np.sqrt((d**2).sum()), rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)
    with pytest.raises(ValueError, match="no centre"):
        embed.centred(f, c, n + 4)
    with pytest.raises(ValueError, match="9 features have 8 classes"):
        embed.centred(f, c, n[:8])


def test_patch_features_are_the_lattice_read_at_the_places(encoder, images):
    places = np.random.default_rng(2).integers(0, 16, (7, 3))
    found = embed.patch_features(encoder, images, places, grid=4, batch=3)
    assert found.shape == (7, 3, 448)
    with torch.no_grad():
        maps = encoder.maps(torch.from_numpy(images[5:6]).permute(0, 3, 1, 2).float() / 255)
    row, col = divmod(int(places[5, 1]), 4)
    layer1 = maps["layer1"][0].numpy()  # 8 x 8: each cell of the lattice is the mean of 2 x 2
    mean = layer1[:, 2 * row : 2 * row + 2, 2 * col : 2 * col + 2].mean((1, 2))
    np.testing.assert_allclose(found[5, 1, :64], mean, atol=1e-5)
    np.testing.assert_allclose(found[5, 1, 64:192], maps["layer2"][0, :, row, col], atol=1e-5)
    np.testing.assert_allclose(found[5, 1, 192:], maps["layer3"][0, :, row // 2, col // 2], atol=1e-5)


def test_neighbours_equal_scikit_learns_brute_force():
    x = np.random.default_rng(3).normal(size=(300, 32)).astype(np.float32)
    distance, index = NearestNeighbors(n_neighbors=11, algorithm="brute").fit(x.astype(np.float64)).kneighbors()
    for i in (0, 17, 299):
        got, far = embed.nearest(x, i, 11)
        np.testing.assert_array_equal(got, index[i])
        np.testing.assert_allclose(far, distance[i], rtol=1e-5)


def test_neighbours_among_the_allowed_only_and_never_oneself():
    x = np.zeros((6, 2), np.float32)  # all at one place: ties go to the smaller index
    assert embed.nearest(x, 2, 3)[0].tolist() == [0, 1, 3]
    allowed = np.array([0, 0, 1, 0, 1, 1], bool)
    assert embed.nearest(x, 2, 10, allowed)[0].tolist() == [4, 5]
