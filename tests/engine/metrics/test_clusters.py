"""Map quality, cluster figures and neighbours, on clouds of known separation; a warning where they disagree."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from core.engine.metrics import clusters as cluster_metrics
from core.engine.metrics import vectors
from core.engine.metrics.clusters import lesion_side


def clouds(distance: float, n: int = 60, d: int = 16, seed: int = 0):
    """Three Gaussian clouds of n points, their means `distance` apart."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(3), n)
    means = np.eye(3, d) * distance / np.sqrt(2)
    return means[labels] + rng.normal(size=(3 * n, d)) / np.sqrt(d), labels


def test_all_numbers_rise_as_classes_part():
    near, far = (cluster_metrics.cluster_metrics(*clouds(distance)) for distance in (0.0, 6.0))
    assert far["silhouette"] > 0.7 > 0.1 > near["silhouette"]
    assert far["davies_bouldin"] < 0.6 < 3 < near["davies_bouldin"]
    assert far["knn_purity"] == 1.0 and near["knn_purity"] < near["knn_chance"] + 0.1
    assert far["between_within"] == pytest.approx(6.0, rel=0.1)
    assert near["knn_chance"] == pytest.approx(59 / 179)


def test_purity_is_the_mean_over_classes_so_that_a_big_class_hides_no_small_one():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(200, 4)), rng.normal(size=(10, 4))])  # the small class is mixed into the big
    labels = np.repeat([0, 1], [200, 10])
    purity, chance = cluster_metrics.knn_purity(x, labels, 5)
    assert purity < 0.6
    assert chance == pytest.approx((199 / 209 + 9 / 209) / 2)


def test_trustworthiness_separates_a_faithful_map_from_a_random_one():
    x, _ = clouds(3.0)
    flat = x.copy()
    flat[:, 2:] = 0
    assert cluster_metrics.map_trustworthiness(flat, flat[:, :2]) == pytest.approx(1.0)
    assert cluster_metrics.map_trustworthiness(x, np.random.default_rng(0).normal(size=(180, 2))) < 0.6


def test_the_sample_is_the_same_for_a_seed_and_is_named():
    x, labels = clouds(1.0, n=300)
    one, two = (cluster_metrics.cluster_metrics(x, labels, sample=200, seed=5) for _ in range(2))
    assert one == two and one["points"] == 200


def test_one_class_or_single_points_have_no_separation():
    assert cluster_metrics.cluster_metrics(np.random.default_rng(0).normal(size=(20, 3)), np.zeros(20)) == {}
    assert cluster_metrics.cluster_metrics(np.zeros((3, 2)), np.arange(3)) == {}


def test_a_map_prettier_than_its_features_is_warned_of():
    x, labels = clouds(0.0)
    pretty = np.stack([labels * 10.0, np.random.default_rng(0).normal(size=len(labels))], 1)
    said = " ".join(cluster_metrics.map_quality(x, pretty, labels)["warnings"])
    assert "do not prove separation" in said and "do not rely on its distances" in said and "than chance" in said


def test_a_map_that_mixes_what_the_features_part_is_warned_of():
    x, labels = clouds(8.0)
    muddle = np.random.default_rng(0).normal(size=(len(labels), 2))
    assert any(
        "mixing on the map does not prove" in w for w in cluster_metrics.map_quality(x, muddle, labels)["warnings"]
    )


def test_a_faithful_map_is_not_warned_of():
    x, labels = clouds(6.0, d=3)
    numbers = cluster_metrics.map_quality(x, x[:, :2], labels, trustworthiness=0.97)
    assert numbers["warnings"] == [] and numbers["trustworthiness"] == 0.97


def test_separation_made_by_centring_alone_is_warned_of():
    plain, labels = clouds(0.0)
    apart = plain - np.eye(3, 16)[labels] * 5  # as centres that lie far apart would
    numbers = cluster_metrics.map_quality(apart, apart[:, :2], labels, plain=plain)
    assert numbers["plain_knn_purity"] < 0.5 < 0.9 < numbers["knn_purity"]
    assert any("Centring uses" in w for w in numbers["warnings"])


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_real_lesions_are_counted_on_the_side_of_the_nearest_class_mean(share):
    draw = np.random.default_rng(0)
    classes = np.repeat([0, 1, 2, -1, -1], 40)
    truth = np.repeat([-1, -1, -1, 0, 1], 40)
    spots = np.array([[0.0, 0], [9, 0], [0, 9], [1, 1], [1, 1]])[np.repeat(range(5), 40)]
    spots[160 : 160 + int(40 * share)] = (8, 1)
    features = spots + draw.normal(0, 0.3, spots.shape)
    assert lesion_side(features, classes, truth) == {"lesion_side": share, "lesion_side_normal": 0.0}
    assert lesion_side(features, np.where(classes > 0, -1, classes), truth) == {}
    assert "lesion_side" not in lesion_side(features, classes, np.where(truth > 0, -1, truth))


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
