"""Neighbours against scikit-learn's brute force."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from core.engine.metrics import vectors


def test_neighbours_equal_scikit_learns_brute_force():
    x = np.random.default_rng(3).normal(size=(300, 32)).astype(np.float32)
    distance, index = NearestNeighbors(n_neighbors=11, algorithm="brute").fit(x.astype(np.float64)).kneighbors()
    for i in (0, 17, 299):
        got, far = vectors.nearest(x, i, 11)
        np.testing.assert_array_equal(got, index[i])
        np.testing.assert_allclose(far, distance[i], rtol=1e-5)


def test_neighbours_among_the_allowed_only_and_never_oneself():
    x = np.zeros((6, 2), np.float32)  # all at one place: ties go to the smaller index
    assert vectors.nearest(x, 2, 3)[0].tolist() == [0, 1, 3]
    allowed = np.array([0, 0, 1, 0, 1, 1], bool)
    assert vectors.nearest(x, 2, 10, allowed)[0].tolist() == [4, 5]


@pytest.mark.slow
def test_the_page_gets_neighbours_without_loading_torch():
    code = "import sys, core.studio.clusters.explore; sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
