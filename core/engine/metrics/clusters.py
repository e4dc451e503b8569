"""Quality of a 2-D map and of its classes: measured in the *original* feature space, not on the map.

All from scikit-learn, on at most `sample` points drawn from a seed (trustworthiness and silhouette compare every pair).
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
    """Draws at most `sample` of n indices, in order, the same for the same seed."""
    if n <= sample:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, sample, replace=False))


def between_within(features: np.ndarray, labels: np.ndarray) -> float:
    """Computes the mean distance between class means over the mean distance of a point to its own class's mean.

    Larger values mean classes further apart.
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
    """Computes the share of a point's k nearest neighbours that carry its label, and the share that chance gives.

    Both are averaged over classes, which keeps a big class from hiding small ones; chance is then 1 / number of classes
    only when they are of one size, so it is worked out: a class of m among N points has (m - 1) / (N - 1).
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
    """Measures how far apart classes lie in the features: features (N, D), labels (N,) -> dict of floats.

    It takes at least two classes; of one, the dict is empty. Keys: silhouette (-1..1, larger is better), davies_bouldin
    (0.., smaller is better), knn_purity and knn_chance (0..1), between_within (0.., larger is better), points (how many
    were compared).
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
    """Measures how often real images lie nearer to an image class with pasted lesions than to normal images.

    features (N, D). classes (N,): n of A_n, -1 for test images. truth (N,): 1 for abnormal and 0 for normal test
    images, -1 for others. Returns the shares (0..1) whose nearest class mean is not A_0's: lesion_side of abnormal test
    images, lesion_side_normal of normal ones. One is absent without such images, both where nothing was pasted.
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
    """Computes trustworthiness (0..1): are a point's neighbours on the map its neighbours in the features too?

    1 keeps every neighbourhood; a random map gives about 0.5. nan with fewer than four points.
    """
    pick = draw(len(features), sample, seed)
    k = min(k, (len(pick) - 1) // 2)
    if k < 1:
        return float("nan")
    return float(manifold.trustworthiness(features[pick], coords[pick], n_neighbors=k))


def radius(features: np.ndarray) -> float:
    """Computes the mean distance of a class's points (n, D) from their own mean."""
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
    """Computes the figures and warnings shown beside a map.

    These are `cluster_metrics` of the features, trustworthiness and the map's silhouette.
    `trustworthiness`: the trustworthiness of the whole map, where these are only some of its points.
    `plain`: the features before each class's own centre was taken from them; centring knows the class, so it may part
    (or join) classes by itself.
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
    """Returns sentences for where the map and the features disagree; an empty list when they agree."""
    said = []
    trustworthiness, silhouette, on_map = (numbers.get(k) for k in ("trustworthiness", "silhouette", "map_silhouette"))
    if trustworthiness is not None and trustworthiness < 0.85:
        said.append(
            f"Neighbours on this map are often not neighbours in the features (trustworthiness {trustworthiness:.2f}): "
            "read no distances from it."
        )
    if silhouette is not None and on_map is not None:
        if on_map - silhouette > 0.25:
            said.append(
                f"The map shows the classes further apart (silhouette {on_map:.2f}) than the features hold them "
                f"({silhouette:.2f}): its gaps are no proof."
            )
        elif silhouette - on_map > 0.25:
            said.append(
                f"The features hold the classes further apart (silhouette {silhouette:.2f}) than the map shows "
                f"({on_map:.2f}): mixing on the map is no proof of mixing."
            )
    plain = numbers.get("plain_knn_purity")
    if plain is not None and numbers["knn_purity"] - plain > 0.15:
        said.append(
            f"Centring uses each image's class. Without it a point's neighbours carry its class {plain:.2f} of the "
            f"time, not {numbers['knn_purity']:.2f}: look at the projected features too."
        )
    purity, chance = numbers.get("knn_purity"), numbers.get("knn_chance")
    if purity is not None and chance is not None and purity < chance + 0.05:
        said.append(
            f"In the features a point's neighbours carry its class no more often than chance ({purity:.2f} against "
            f"{chance:.2f}): any cluster of classes seen here is the map's."
        )
    return said
