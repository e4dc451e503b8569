"""Fits flat maps of features: t-SNE, UMAP or PCA, seeded so that the same seed gives the same map.

Fits run on one thread: scikit-learn's t-SNE is several times faster so on a busy machine, and sums are then added in
one order, so that two processes agree to the last bit. Progress is read from the text that the libraries print (neither
takes a callback); UMAP's compiled functions are kept on disk; maps of successive epochs can be played as one film: each
starts from the one before and is then turned by Procrustes.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from core.studio.clusters.config import MapConfig

Report = Callable[[int, int], None]


class Listener(io.TextIOBase):
    """A file that calls report(done, total) for each piece of text in which `pattern` finds how much is done."""

    def __init__(self, report: Report, pattern: str, total: int = 0):
        self.report, self.pattern, self.total = report, re.compile(pattern), total

    def write(self, text: str) -> int:
        for match in self.pattern.finditer(text):
            done, *rest = map(int, match.groups())
            self.report(done, rest[0] if rest else self.total)
        return len(text)


@contextlib.contextmanager
def tsne(report: Report | None, iterations: int) -> Iterator[int]:
    """Reports the progress of a t-SNE fitted in this context; gives the `verbose` that TSNE needs for it."""
    if report is None:
        yield 0
        return
    with contextlib.redirect_stdout(Listener(report, r"Iteration (\d+):", iterations)):
        yield 2


def umap(report: Report | None) -> dict:
    """Returns the `tqdm_kwds` with which UMAP reports its progress; without `report` it shows none."""
    if report is None:
        return {"disable": True}
    listener = Listener(report, r"(\d+)/(\d+)")
    return {"disable": False, "file": listener, "bar_format": "{n_fmt}/{total_fmt} ", "mininterval": 0.5}


LIBRARIES = ("umap", "pynndescent")


def umap_library() -> ModuleType:
    """Imports the module `umap`, whose compiled functions are then kept on disk where possible.

    It takes seconds: never in the page's process.
    """
    import umap

    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] in LIBRARIES]
    functions = [f for module in modules for f in vars(module).values() if hasattr(type(f), "enable_caching")]
    for function in functions:
        if not function.signatures:  # else it is compiled already
            with contextlib.suppress(RuntimeError):  # no place that can be written to: it is compiled each time
                function.enable_caching()
    return umap


MOVED_EXAGGERATION = 1.0  # a map that starts from another needs no early exaggeration: its clusters already stand
MOVED_EPOCHS, MOVED_RATE = 100, 0.05  # UMAP: measured, see tests/studio/clusters/test_align.py


def fit_map(
    features: np.ndarray, config: MapConfig, start: np.ndarray | None = None, report: Report | None = None
) -> np.ndarray:
    """Fits a map to features (N, D) -> coordinates float32 (N, 2), centred at 0 with unit root mean square radius.

    start: (N, 2) coordinates of the map before; t-SNE and UMAP begin there (PCA has nothing to begin). report: called
    with (iterations done, iterations in all) while t-SNE or UMAP goes on; what it raises ends the fit.
    """
    features = np.ascontiguousarray(features, np.float32)
    if len(features) < 4:
        raise ValueError(f"a map needs at least four points; there are {len(features)}")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tidy(_FITS[config.method](features, config, start, report))


def tidy(coords: np.ndarray) -> np.ndarray:
    """Centres coordinates at 0 and scales them to a root mean square radius of 1: float32.

    So maps of every method share one scale.
    """
    coords = np.asarray(coords, np.float64)
    coords = coords - coords.mean(0)
    size = np.sqrt((coords**2).sum(1).mean())
    return (coords / (size if size > 0 else 1.0)).astype(np.float32)


def pca_coords(features: np.ndarray, components: int = 2) -> np.ndarray:
    """Computes first principal components, float64 (N, components); each axis's sign fixed by its largest loading."""
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
        # the scale that a finished t-SNE of this many points has, so that the old map is already near its rest
        first, exaggeration = start.astype(np.float64) * _tsne_radius(len(features)), MOVED_EXAGGERATION
    with tsne(report, config.iterations) as verbose:
        fit = TSNE(
            2,
            perplexity=perplexity,
            early_exaggeration=exaggeration,
            max_iter=config.iterations,
            init=first.astype(np.float32),
            random_state=config.seed,
            method="barnes_hut" if len(features) > 200 else "exact",
            verbose=verbose,
        )
        return fit.fit_transform(reduced.astype(np.float32))


def _tsne_radius(n: int) -> float:
    """About the root mean square radius of a finished map of n points (21 was measured at 300, 24 at 600)."""
    return 0.8 * np.sqrt(n)


def _umap(features: np.ndarray, config: MapConfig, start: np.ndarray | None, report) -> np.ndarray:
    model = umap_library().UMAP(
        n_neighbors=min(config.neighbours, len(features) - 1),
        min_dist=config.min_dist,
        random_state=config.seed,
        n_jobs=1,
        init=pca_start(features) if start is None else start,
        n_epochs=None if start is None else MOVED_EPOCHS,
        learning_rate=1.0 if start is None else MOVED_RATE,
        tqdm_kwds=umap(report),
    )
    return model.fit_transform(features)


def pca_start(features: np.ndarray) -> np.ndarray:
    """Computes a start for UMAP that needs no seed: float32 (N, 2).

    Spectral starts differ between machines and fail on small graphs.
    """
    return tidy(pca_coords(features))


def nearest_points(features: np.ndarray, new: np.ndarray, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Finds the k nearest of features (N, D) to each new one (M, D): int64 indices and Euclidean distances, (M, k)."""
    distance, index = NearestNeighbors(n_neighbors=min(k, len(features))).fit(features).kneighbors(new)
    return index, distance


def weighted_mean(coords: np.ndarray, index: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Computes the mean of the neighbours' places on the map, weighted by 1 / distance: float32 (M, 2)."""
    weight = 1 / np.maximum(distance, 1e-9)
    weight /= weight.sum(1, keepdims=True)
    return np.einsum("mk,mkc->mc", weight, coords[index]).astype(np.float32)


def project(features: np.ndarray, coords: np.ndarray, new: np.ndarray, k: int = 10) -> np.ndarray:
    """Places new features (M, D) on a finished map: float32 (M, 2), the map itself untouched.

    Between their k nearest neighbours in feature space (`weighted_mean`); one that coincides with a point lies on it.
    UMAP's own `transform` begins at such a mean too (umap-learn, `init_graph_transform`) and then lets the new points
    settle; that takes the fitted model with its random state. This function takes the points alone, serves maps of
    every method, and gives a new image the same place whatever other images come with it.
    """
    return weighted_mean(coords, *nearest_points(features, new, k))


_FITS = {"pca": _pca, "tsne": _tsne, "umap": _umap}


def procrustes(coords: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Turn (and mirror) coords (N, 2) so that its points lie as near as can be to `onto`'s: float32 (N, 2).

    Only a rotation or reflection, found by the singular value decomposition (Schoenemann 1966): the scale of every map
    is already one, and changing it would hide that features spread or collapse.
    """
    a, b = coords.astype(np.float64), onto.astype(np.float64)
    u, _, vt = np.linalg.svd((a - a.mean(0)).T @ (b - b.mean(0)))
    return ((a - a.mean(0)) @ (u @ vt) + b.mean(0)).astype(np.float32)


def fit_series(
    features: Iterable[np.ndarray],
    config: MapConfig,
    on_progress: Callable[[int, int, int], None] | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (features (N, D), map float32 (N, 2)) of each epoch; the features of one epoch are asked for at a time.

    With `config.align` each map starts from the one before and is turned onto it. on_progress(epoch index, iterations
    done, iterations in all) is called while a map is fitted.
    """
    before = None
    for e, epoch_features in enumerate(features):
        start = before if config.align else None
        coords = fit_map(
            epoch_features, config, start, None if on_progress is None else functools.partial(on_progress, e)
        )
        before = coords if start is None else procrustes(coords, start)
        yield epoch_features, before
