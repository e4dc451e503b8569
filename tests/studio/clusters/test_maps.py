"""The same seed gives the same map, in two processes too; new points find their place without a refit."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from core.engine.config import BadConfig
from core.studio.clusters import maps
from core.studio.clusters.config import MapConfig, PointsConfig

ROOT = Path(__file__).resolve().parents[3]
DIGEST = """
import hashlib, numpy as np
from core.studio.clusters import maps
from core.studio.clusters.config import MapConfig
x = np.random.default_rng(0).normal(size=(220, 24)).astype("f4")
for method in {methods!r}:
    print(hashlib.sha256(maps.fit_map(x, MapConfig(method=method, seed=7)).tobytes()).hexdigest())
"""


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=(220, 24)).astype("f4")


@pytest.mark.longest
def test_same_seed_same_map_in_two_processes(x):
    methods = ["pca", "tsne", "umap"]
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", DIGEST.format(methods=methods)]
    there = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    here = [hashlib.sha256(maps.fit_map(x, MapConfig(method=m, seed=7)).tobytes()).hexdigest() for m in methods]
    assert here == there


@pytest.mark.slow
def test_what_a_umap_compiles_is_kept_for_the_next_process(x):
    maps.fit_map(x, MapConfig(method="umap", seed=7))
    import umap.umap_

    for function in (umap.umap_.smooth_knn_dist, umap.umap_.compute_membership_strengths):
        used = function.stats
        assert used.cache_hits or used.cache_misses, "neither read nor written"
        assert list(Path(used.cache_path).glob(f"*{function.__name__}*.nbc"))


@pytest.mark.slow
def test_maps_are_centred_at_one_scale(x):
    for method in ("pca", "tsne"):
        coords = maps.fit_map(x, MapConfig(method=method))
        assert coords.shape == (220, 2) and coords.dtype == np.float32
        np.testing.assert_allclose(coords.mean(0), 0, atol=1e-5)
        assert np.sqrt((coords**2).sum(1).mean()) == pytest.approx(1, rel=1e-5)


def test_pca_equals_the_singular_value_decomposition(x):
    centred = x - x.mean(0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    found = maps.fit_map(x, MapConfig(method="pca"))
    for axis in (0, 1):
        cosine = abs(found[:, axis] @ u[:, axis]) / np.linalg.norm(found[:, axis])
        assert cosine == pytest.approx(1, abs=1e-4)
    assert found[:, 0].std() / found[:, 1].std() == pytest.approx(s[0] / s[1], rel=1e-3)


def test_a_perplexity_too_large_for_few_points_is_lowered():
    few = np.random.default_rng(1).normal(size=(10, 5))
    assert np.isfinite(maps.fit_map(few, MapConfig(method="tsne", perplexity=50))).all()
    with pytest.raises(ValueError, match="at least four"):
        maps.fit_map(few[:3], MapConfig())


def test_new_points_find_their_place_and_the_map_stays(x):
    coords = maps.fit_map(x, MapConfig(method="pca"))
    kept = coords.copy()
    projected = maps.project(x, coords, x[:5])
    np.testing.assert_allclose(projected, coords[:5], atol=1e-4)
    np.testing.assert_array_equal(coords, kept)


def test_bad_settings_are_sentences():
    for wrong in ({"method": "isomap"}, {"feature": "pixels"}, {"perplexity": 0.0}, {"min_dist": 1.5}):
        with pytest.raises(BadConfig):
            MapConfig(**wrong)
    with pytest.raises(BadConfig, match="cannot be -1"):
        PointsConfig(mixed=-1)
    config = MapConfig(epochs=(0, 3), points=PointsConfig(train=5))
    assert MapConfig.from_dict(json.loads(config.to_json())) == config


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tsne", "umap"])
def test_a_fit_reports_how_far_it_is_and_can_be_stopped_on_the_way(x, method):
    config, seen = MapConfig(method=method, iterations=300, seed=7), []
    watched = maps.fit_map(x, config, report=lambda i, n: seen.append((i, n)))
    assert len(seen) >= 2 and all(0 <= i <= n for i, n in seen) and seen == sorted(seen) and seen[-1][0] > 0
    np.testing.assert_array_equal(watched, maps.fit_map(x, config))  # watching changes nothing

    class Enough(Exception): ...

    def stop(i, n):
        raise Enough

    with pytest.raises(Enough):
        maps.fit_map(x, config, report=stop)
