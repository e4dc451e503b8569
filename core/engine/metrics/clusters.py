"""Measures the quality of a 2-D map of features, and how well classes are separated in the *original* features.

Most metrics use a random sample of at most `sample` points, because some of them compare all pairs of points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn import manifold
from sklearn.metrics import davies_bouldin_score, silhouette_score
from sklearn.neighbors import NearestNeighbors

NAMES = {
    "trustworthiness": "Trustworthiness of the map",
    "silhouette": "Silhouette",
    "davies_bouldin": "Davies-Bouldin",
    "knn_purity": "Neighbour purity",
    "between_within": "Between / within",
    "map_silhouette": "Silhouette on the map",
}


def draw(n: int, sample: int, seed: int) -> np.ndarray:
    """Draws at most `sample` of `n` points at random; returns their indices in ascending order."""
    if n <= sample:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, sample, replace=False))


def between_within(features: np.ndarray, labels: np.ndarray) -> float:
    """Computes the mean distance between class means, divided by the mean distance of points from their class mean.

    A larger ratio means that classes are better separated. The features are `(N, D)`, the labels `(N,)`.
    """
    names = np.unique(labels)
    means = np.stack([features[labels == c].mean(0) for c in names])
    within = np.mean(
        [np.linalg.norm(features[labels == c] - m, axis=1).mean() for c, m in zip(names, means, strict=True)]
    )
    i, j = np.triu_indices(len(names), 1)
    between = np.linalg.norm(means[i] - means[j], axis=1).mean()
    return float(between / within) if within > 0 else float("inf")


def knn_purity(features: np.ndarray, labels: np.ndarray, k: int = 10) -> tuple[float, float]:
    """Computes which fraction of a point's `k` nearest neighbours has its label, and the fraction expected by chance.

    Both are averaged over classes, so that a large class does not dominate small ones. For a class with m of N points,
    the expected fraction is (m - 1) / (N - 1). The features are `(N, D)`, the labels `(N,)`.
    """
    k = min(k, len(features) - 1)
    near = NearestNeighbors(n_neighbors=k).fit(features).kneighbors(return_distance=False)
    same = (labels[near] == labels[:, None]).mean(1)
    names, counts = np.unique(labels, return_counts=True)
    purity = np.mean([same[labels == c].mean() for c in names])
    return float(purity), float(np.mean((counts - 1) / (len(labels) - 1)))


def cluster_metrics(
    features: np.ndarray, labels: np.ndarray, *, k: int = 10, sample: int = 2000, seed: int = 0
) -> dict[str, Any]:
    """Measures how well the features `(N, D)` separate the classes given by the labels `(N,)`.

    Returns:
        `silhouette` (-1 to 1, larger is better), `davies_bouldin` (0 or more, smaller is better), `knn_purity` and its
        chance level `knn_chance` (0 to 1), `between_within` (0 or more, larger is better) and `points` (number of
        points used). The dictionary is empty if fewer than two classes have two or more points.
    """
    pick = draw(len(features), sample, seed)
    x, y = np.asarray(features[pick], np.float64), np.asarray(labels)[pick]
    names, counts = np.unique(y, return_counts=True)
    keep = np.isin(y, names[counts >= 2])
    x, y = x[keep], y[keep]
    if len(np.unique(y)) < 2 or len(x) <= len(np.unique(y)):
        return {}
    purity, chance = knn_purity(x, y, k)
    return {
        "silhouette": float(silhouette_score(x, y)),
        "davies_bouldin": float(davies_bouldin_score(x, y)),
        "knn_purity": purity,
        "knn_chance": chance,
        "between_within": between_within(x, y),
        "points": len(x),
    }


def lesion_side(features: np.ndarray, classes: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Measures how often test images are closer to a class with pasted lesions than to the normal class A_0.

    Args:
        features: `(N, D)` features.
        classes: `(N,)` class of each image, n for class A_n (n pasted lesions), or -1 for test images.
        truth: `(N,)` ground truth: 1 for abnormal test images, 0 for normal test images, -1 for all other images.

    Returns:
        Fractions (0 to 1) of test images whose nearest class mean is not that of A_0: `lesion_side` for abnormal
        images, `lesion_side_normal` for normal images. The dictionary is empty without A_0 or without pasted lesions.
    """
    names = np.unique(classes[classes >= 0])
    if not {0} < set(names.tolist()):
        return {}
    means = np.stack([features[classes == name].mean(0) for name in names])
    beyond = cdist(features, means).argmin(1) > 0
    keys = {"lesion_side": 1, "lesion_side_normal": 0}
    return {key: float(beyond[truth == value].mean()) for key, value in keys.items() if (truth == value).any()}


def map_trustworthiness(
    features: np.ndarray, coords: np.ndarray, *, k: int = 12, sample: int = 2000, seed: int = 0
) -> float:
    """Measures to what extent neighbours on a map, `coords` `(N, 2)`, are also neighbours in the features `(N, D)`.

    Trustworthiness is 1 for a perfect map, about 0.5 for a random map, and NaN for fewer than three points.
    """
    pick = draw(len(features), sample, seed)
    k = min(k, (len(pick) - 1) // 2)
    if k < 1:
        return float("nan")
    return float(manifold.trustworthiness(features[pick], coords[pick], n_neighbors=k))


def radius(features: np.ndarray) -> float:
    """Computes the mean distance of the points `(n, D)` from their mean."""
    return float(np.linalg.norm(features - features.mean(0), axis=1).mean())


def map_quality(
    features: np.ndarray,
    coords: np.ndarray,
    labels: np.ndarray,
    *,
    plain: np.ndarray | None = None,
    sample: int = 2000,
    seed: int = 0,
    trustworthiness: float | None = None,
) -> dict[str, Any]:
    """Computes the metrics and warnings shown with a map of features.

    Args:
        features: `(N, D)` features.
        coords: `(N, 2)` coordinates on the map.
        labels: `(N,)` classes.
        plain: `(N, D)` features before class centring, to detect classes that are separated by centring only, or None.
        sample: Largest number of points used.
        seed: Seed of the random sample.
        trustworthiness: Trustworthiness of the complete map, if known. Defaults to that of the given points.
    """
    numbers = cluster_metrics(features, labels, sample=sample, seed=seed)
    numbers["trustworthiness"] = (
        map_trustworthiness(features, coords, sample=sample, seed=seed) if trustworthiness is None else trustworthiness
    )
    if plain is not None:
        before = cluster_metrics(plain, labels, sample=sample, seed=seed)
        numbers |= {f"plain_{k}": before[k] for k in ("silhouette", "knn_purity") if k in before}
    on_map = cluster_metrics(coords, labels, sample=sample, seed=seed)
    if on_map:
        numbers["map_silhouette"] = on_map["silhouette"]
        numbers["map_knn_purity"] = on_map["knn_purity"]
    numbers["warnings"] = warnings(numbers)
    return numbers


def warnings(numbers: dict[str, Any]) -> list[str]:
    """Returns one sentence per reason to distrust the map, given the metrics that `map_quality` computed."""
    sentences = []
    trustworthiness, silhouette, on_map = (numbers.get(k) for k in ("trustworthiness", "silhouette", "map_silhouette"))
    if trustworthiness is not None and trustworthiness < 0.85:
        sentences.append(
            f"Neighbours on this map are often not neighbours in the features (trustworthiness {trustworthiness:.2f}): "
            "do not rely on its distances."
        )
    if silhouette is not None and on_map is not None:
        if on_map - silhouette > 0.25:
            sentences.append(
                f"The classes are farther apart on the map (silhouette {on_map:.2f}) than in the features "
                f"({silhouette:.2f}): gaps on the map do not prove separation."
            )
        elif silhouette - on_map > 0.25:
            sentences.append(
                f"The classes are farther apart in the features (silhouette {silhouette:.2f}) than on the map "
                f"({on_map:.2f}): mixing on the map does not prove mixing."
            )
    plain = numbers.get("plain_knn_purity")
    if plain is not None and numbers["knn_purity"] - plain > 0.15:
        sentences.append(
            f"Centring uses each image's class. Without it the neighbour purity is {plain:.2f} instead of "
            f"{numbers['knn_purity']:.2f}: compare with the projected features."
        )
    purity, chance = numbers.get("knn_purity"), numbers.get("knn_chance")
    if purity is not None and chance is not None and purity < chance + 0.05:
        sentences.append(
            f"In the features the neighbour purity ({purity:.2f}) is no better than chance ({chance:.2f}): any "
            "clusters of classes on the map are artefacts."
        )
    return sentences
