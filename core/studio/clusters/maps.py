"""Two-dimensional maps of features by t-SNE, UMAP or PCA; the same seed gives the same map.

Fits use one thread, so that sums are computed in the same order and two processes give identical results. UMAP's
progress is read from its output, because it has no callback; its compiled functions are cached on disk. Maps of
successive epochs can be played as a film, because each map starts from the previous one and is aligned with it by
Procrustes analysis.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType

import numpy as np
from openTSNE import TSNE
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from core.studio.clusters.config import MapConfig

Report = Callable[[int, int], None]


class Listener(io.TextIOBase):
    """Output stream that calls report(done, total) with the numbers that `pattern` finds in the written text."""

    def __init__(self, report: Report, pattern: str, total: int = 0):
        self.report, self.pattern, self.total = report, re.compile(pattern), total

    def write(self, text: str) -> int:
        for match in self.pattern.finditer(text):
            done, *total = map(int, match.groups())
            self.report(done, total[0] if total else self.total)
        return len(text)


def umap(report: Report | None) -> dict:
    """Returns the `tqdm_kwds` that make UMAP call `report` with its progress; without `report`, UMAP stays silent."""
    if report is None:
        return {"disable": True}
    listener = Listener(report, r"(\d+)/(\d+)")
    return {"disable": False, "file": listener, "bar_format": "{n_fmt}/{total_fmt} ", "mininterval": 0.5}


LIBRARIES = ("umap", "pynndescent")


def umap_library() -> ModuleType:
    """Imports the module `umap`, whose compiled functions are cached on disk if possible.

    The import takes seconds, so the page's process must not call this function.
    """
    import umap

    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] in LIBRARIES]
    functions = [f for module in modules for f in vars(module).values() if hasattr(type(f), "enable_caching")]
    for function in functions:
        if not function.signatures:  # not compiled yet
            with contextlib.suppress(RuntimeError):  # without a writable folder, the function is compiled each time
                function.enable_caching()
    return umap


logging.getLogger("openTSNE").setLevel(logging.ERROR)  # hides the warning for a start from a finished map
EARLY, EVERY = 250, 50  # t-SNE iterations with early exaggeration, and between progress reports
MOVED_EXAGGERATION = 1.0  # no exaggeration: a map that starts from another has clusters already
MOVED_EPOCHS, MOVED_RATE = 100, 0.05  # of UMAP for such a map, measured in tests/studio/clusters/test_maps.py


def fit_map(
    features: np.ndarray, config: MapConfig, start: np.ndarray | None = None, report: Report | None = None
) -> np.ndarray:
    """Fits a map to features (N, D); returns coordinates float32 (N, 2), centred and scaled by `tidy`.

    start: Coordinates (N, 2) of the previous map, from which t-SNE and UMAP start, or None. PCA ignores `start`.
    report: Function that t-SNE and UMAP call with (finished, all) iterations. To end the fit, it may raise an error.

    Raises ValueError for fewer than 4 points.
    """
    features = np.ascontiguousarray(features, np.float32)
    if len(features) < 4:
        raise ValueError(f"a map needs at least four points, not {len(features)}")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tidy(_FITS[config.method](features, config, start, report))


def tidy(coords: np.ndarray) -> np.ndarray:
    """Centres the coordinates of a map at 0 and scales them to a root mean square radius of 1; returns float32."""
    coords = np.asarray(coords, np.float64)
    coords = coords - coords.mean(0)
    size = np.sqrt((coords**2).sum(1).mean())
    return (coords / (size if size > 0 else 1.0)).astype(np.float32)


def pca_coords(features: np.ndarray, components: int = 2) -> np.ndarray:
    """Projects features onto their first principal components, float64 (N, components), with reproducible signs."""
    components = min(components, *features.shape)
    out = PCA(components, svd_solver="full" if len(features) <= 5000 else "covariance_eigh").fit_transform(
        features.astype(np.float64)
    )
    if components < 2:
        out = np.pad(out, ((0, 0), (0, 2 - components)))
    return out


def _pca(features: np.ndarray, config: MapConfig, start, report) -> np.ndarray:
    return pca_coords(features)


def _tsne(features: np.ndarray, config: MapConfig, start: np.ndarray | None, report) -> np.ndarray:
    reduced = pca_coords(features, 50) if min(features.shape) > 50 else features.astype(np.float64)
    perplexity = min(config.perplexity, (len(features) - 1) / 3)
    if start is None:
        first = pca_coords(features)
        first, exaggeration = first / max(first[:, 0].std(), 1e-12) * 1e-4, 12.0
    else:
        # the scale of a finished t-SNE with this many points, so that the old map is close to its final state
        first, exaggeration = start.astype(np.float64) * _tsne_radius(len(features)), MOVED_EXAGGERATION
    done = 0

    def progress(*_: object) -> None:
        nonlocal done
        done += EVERY
        if report is not None:
            report(min(done, config.iterations), config.iterations)

    early = min(EARLY, config.iterations)
    fit = TSNE(
        perplexity=perplexity,
        early_exaggeration=exaggeration,
        early_exaggeration_iter=early,
        n_iter=config.iterations - early,
        initialization=first,
        random_state=config.seed,
        callbacks=progress,
        callbacks_every_iters=EVERY,
    )
    return np.asarray(fit.fit(reduced))


def _tsne_radius(n: int) -> float:
    """Estimates the root mean square radius of a finished t-SNE of n points (measured: 17 for 300, 22 for 600)."""
    return 0.8 * np.sqrt(n)


def _umap(features: np.ndarray, config: MapConfig, start: np.ndarray | None, report) -> np.ndarray:
    model = umap_library().UMAP(
        n_neighbors=min(config.neighbours, len(features) - 1),
        min_dist=config.min_dist,
        random_state=config.seed,
        n_jobs=1,
        # The spectral initialisation differs between machines and fails on small graphs.
        init=tidy(pca_coords(features)) if start is None else start,
        n_epochs=None if start is None else MOVED_EPOCHS,
        learning_rate=1.0 if start is None else MOVED_RATE,
        tqdm_kwds=umap(report),
    )
    return model.fit_transform(features)


def nearest_points(features: np.ndarray, new: np.ndarray, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Returns indices and Euclidean distances (M, k) of the k rows of `features` nearest to each of M rows of `new`."""
    distance, index = NearestNeighbors(n_neighbors=min(k, len(features))).fit(features).kneighbors(new)
    return index, distance


def weighted_mean(coords: np.ndarray, index: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Computes the mean map coordinates of M sets of neighbours, weighted by 1 / distance, float32 (M, 2)."""
    weight = 1 / np.maximum(distance, 1e-9)
    weight /= weight.sum(1, keepdims=True)
    return np.einsum("mk,mkc->mc", weight, coords[index]).astype(np.float32)


def project(features: np.ndarray, coords: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Projects new features (M, D) onto a finished map, which is not changed; returns float32 (M, 2).

    Each new point is placed at the `weighted_mean` of its ten nearest neighbours in feature space. UMAP's `transform`
    also starts from such a mean (umap-learn, `init_graph_transform`), but then optimises the new points, which requires
    the fitted model with its random state. In contrast, this function needs only the points of the map, works for maps
    of every method, and places each new image independently of the others.
    """
    return weighted_mean(coords, *nearest_points(features, new))


_FITS = {"pca": _pca, "tsne": _tsne, "umap": _umap}


def procrustes(coords: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Shifts, rotates and, if better, reflects `coords` (N, 2) to match `onto` (N, 2) best; returns float32.

    The rotation comes from a singular value decomposition (Schoenemann 1966). The scale is not changed, because `tidy`
    gives all maps the same scale.
    """
    a, b = coords.astype(np.float64), onto.astype(np.float64)
    u, _, vt = np.linalg.svd((a - a.mean(0)).T @ (b - b.mean(0)))
    return ((a - a.mean(0)) @ (u @ vt) + b.mean(0)).astype(np.float32)


def fit_series(
    features: Iterable[np.ndarray],
    config: MapConfig,
    on_progress: Callable[[int, int, int], None] | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the features (N, D) and the map float32 (N, 2) of each epoch; reads the features one epoch at a time.

    With `config.align`, each map starts from the previous one and is rotated onto it. `on_progress` is called during
    fits with (index of the epoch, finished iterations, all iterations).
    """
    before = None
    for e, epoch_features in enumerate(features):
        start = before if config.align else None
        coords = fit_map(
            epoch_features, config, start, None if on_progress is None else functools.partial(on_progress, e)
        )
        before = coords if start is None else procrustes(coords, start)
        yield epoch_features, before
