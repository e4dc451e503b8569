"""Nearest patches, whitened (MH-PatchCore), against components, shrunk covariance and distances written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from core.engine.config import BadConfig
from core.engine.detectors.base import FitContext
from core.engine.detectors.nearest.memory import patches_of, whitening
from core.engine.detectors.nearest.nearest import Nearest, NearestConfig
from core.engine.tensors import to_batch
from tests.engine.detectors.conftest import with_spot


def literal(normal: np.ndarray, asked: np.ndarray, variance: float, shrinkage: float) -> np.ndarray:
    """Squared distances (Q, N) between patches in the whitened space, the paper's steps one after another."""
    pca = PCA(svd_solver="full").fit(normal)
    count = int(np.flatnonzero(np.cumsum(pca.explained_variance_ratio_) >= variance)[0]) + 1
    z, q = (pca.transform(x)[:, :count] for x in (normal, asked))
    covariance = np.cov(z, rowvar=False).reshape(count, count)
    shrunk = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / count * np.eye(count)
    matrix = np.linalg.inv(np.linalg.cholesky(shrunk)).T
    z, q = (z - z.mean(0)) @ matrix, (q - z.mean(0)) @ matrix
    return np.square(q[:, None] - z[None]).sum(2)


@pytest.mark.parametrize(("variance", "shrinkage"), [(0.99, 0.07), (0.6, 0.0), (1.0, 0.5)])
def test_distances_are_those_of_the_papers_steps(variance, shrinkage):
    rng = np.random.default_rng(0)
    normal, asked = (rng.normal(size=(n, 12)) @ np.diag(np.linspace(3, 0.1, 12)) + 5 for n in (300, 20))
    matrix = whitening(torch.from_numpy(np.cov(normal, rowvar=False)), variance, shrinkage).numpy()
    found = np.square((asked @ matrix)[:, None] - (normal @ matrix)[None]).sum(2)
    np.testing.assert_allclose(found, literal(normal, asked, variance, shrinkage), rtol=1e-8)


def test_without_shrinkage_patches_vary_alike_in_all_directions():
    x = torch.randn(500, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * torch.arange(1, 7)
    white = x @ whitening(x.T.cov(), 1.0, 0.0)
    torch.testing.assert_close(white.T.cov(), torch.eye(6, dtype=torch.float64))
    flat = whitening(torch.zeros(3, 3, dtype=torch.float64), 0.99, 0.07)
    assert flat.isfinite().all()


@pytest.mark.slow
def test_maps_and_scores_are_of_all_patches_of_the_region(encoder, images, tmp_path):
    config = NearestConfig(patches=60, pool=400, sigma=0.0, whitened=True)
    roi = np.ones(images.shape[:3], np.uint8)
    roi[:, :, :16] = 0
    fitted = Nearest.fit(encoder, images, config, FitContext(roi=roi))
    assert len(fitted.memory.features) == 60
    with torch.inference_mode():
        maps = encoder.maps(to_batch(images, torch.device("cpu")), config.strides)
        patches = patches_of(maps, config.strides).double().numpy()[..., :-2]
    normal = patches[:, :, 2:].reshape(-1, patches.shape[-1])
    matrix = whitening(torch.from_numpy(np.cov(normal, rowvar=False)), 0.99, 0.07).numpy()
    bank = fitted.memory.features.double().numpy()
    shown = with_spot(images[:4], 30)
    with torch.inference_mode():
        asked = patches_of(encoder.maps(to_batch(shown, torch.device("cpu")), config.strides), config.strides)
    white = asked.double().numpy()[..., :-2] @ matrix
    wanted = np.square(white[..., None, :] - bank).sum(-1).min(-1)
    found = fitted.predict(shown)
    np.testing.assert_allclose(found.maps, wanted, rtol=2e-3)
    plain = fitted.image_score(fitted.predict(images[:4]))
    assert (fitted.image_score(found) > plain).all()
    cells = found.maps.reshape(4, -1).argmax(1)
    assert all(3 <= cell // 8 <= 5 and 3 <= cell % 8 <= 5 for cell in cells), "the spot is the most abnormal place"
    fitted.save(tmp_path)
    again = Nearest.load(tmp_path)
    np.testing.assert_array_equal(again.predict(shown).maps, found.maps)
    match = again.explain(shown[:1], roi=roi[:1])[0]
    assert match.distance**2 == pytest.approx(float(found.extras["distance"][0].max()), rel=1e-3)


@pytest.mark.parametrize("wrong", [{"variance": 0}, {"variance": 1.1}, {"shrinkage": -0.1}, {"shrinkage": 1.5}])
def test_what_is_no_share_is_refused(wrong):
    with pytest.raises(BadConfig):
        NearestConfig(**wrong)
