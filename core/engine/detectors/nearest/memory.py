"""A bounded memory of normal patches: collected image by image, reduced to a coreset, and searched exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.backbones.encoder import Encoder
from core.engine.calibration.heatmap import roi_at
from core.engine.tensors import products

CHUNK = 512  # queries compared at a time: 512 x 8000 distances are 16 MB, which glibc does not return to the system


class Memory(nn.Module):
    """A memory of M normal patches.

    features: float32 (M, D). rows: (M,), the training image of each. cells: (M,), its flat position in that image.
    neighbours: (M, b), the indices of the b patches nearest to each patch, itself first.
    """

    features: Tensor
    rows: Tensor
    cells: Tensor
    neighbours: Tensor
    centre: Tensor
    centred: Tensor
    half_norms: Tensor

    def __init__(self, features: Tensor, rows: Tensor, cells: Tensor, neighbours: Tensor) -> None:
        super().__init__()
        for name, value in {"features": features, "rows": rows, "cells": cells, "neighbours": neighbours}.items():
            self.register_buffer(name, value)
        centre = features.mean(0)  # products of centred features are more precise
        self.register_buffer("centre", centre, persistent=False)
        self.register_buffer("centred", features - centre, persistent=False)
        self.register_buffer("half_norms", self.centred.square().sum(1) / 2, persistent=False)

    @classmethod
    def of(cls, features: Tensor, rows: Tensor, cells: Tensor, neighbours: int) -> Memory:
        memory = cls(features, rows, cells, torch.zeros(len(features), 0, dtype=torch.long, device=features.device))
        count = min(neighbours, len(features))
        if count:
            memory.neighbours = memory.search(features, count)[1]
        return memory

    def search(self, queries: Tensor, count: int = 1) -> tuple[Tensor, Tensor]:
        """Finds the patches nearest to queries (Q, D): distances (Q, count), nearest first, and indices (Q, count).

        All pairs are compared by matrix products. The distances are then computed from differences, so that
        equal patches have a distance of exactly 0.
        """
        index = torch.cat([closeness.topk(count, 1).indices for closeness in self._closeness(queries - self.centre)])
        distances, order = self.distances(queries, index).sort(1)
        return distances, index.gather(1, order)

    def weighted(self, queries: Tensor, power: int = 1) -> tuple[Tensor, Tensor]:
        """Finds the distance of queries (Q, D) from their nearest patches, (Q,), and PatchCore's weights of it, (Q,).

        A weight (Roth et al. 2022, Eq. 7) is 1 - exp(d*) / sum of exp(d): d* is the distance to the nearest patch, d to
        each of its neighbours. All pairs were compared anyway, so d is computed from the products, to about 1e-5.

        Args:
            queries: (Q, D).
            power: The exponent of distances in the weight; with 2, d and d* are squared distances.
        """
        centred = queries - self.centre
        indices, products_around = [], []
        for closeness in self._closeness(centred):
            indices.append(_largest(closeness))
            products_around.append(closeness.gather(1, self.neighbours[indices[-1]]))
        distances = self.distances(queries, torch.cat(indices)[:, None])[:, 0]
        if self.neighbours.shape[1] < 2:
            return distances, torch.ones_like(distances)
        squares = (centred.square().sum(1, keepdim=True) - 2 * torch.cat(products_around)).clamp(min=0)
        return distances, 1 - (distances.pow(power) - squares.pow(power / 2).logsumexp(1)).exp()

    def _closeness(self, centred: Tensor) -> Iterator[Tensor]:
        """Yields q m - |m|^2 / 2 for pairs of some queries q, from which the centre was subtracted, and all patches m.

        It is larger the nearer they are: |q - m|^2 = |q|^2 - 2 (q m - |m|^2 / 2).
        """
        for chunk in [centred] if torch.compiler.is_exporting() else centred.split(CHUNK):
            yield products(chunk, self.centred, self.half_norms.neg())

    def distances(self, queries: Tensor, index: Tensor) -> Tensor:
        """Computes the Euclidean distances (Q, c) of queries (Q, D) from the patches with indices (Q, c)."""
        columns = [(queries - self.features[column]).square().sum(1) for column in index.T]
        return torch.stack(columns, 1).sqrt_() if columns else queries.new_zeros(len(queries), 0)


class Pool:
    """At most `limit` patches, sampled from all images, from which a memory is selected.

    The same number of cells is sampled from each image, with a seed that depends on the image alone, so that batching
    has no effect. If there are more images than `limit`, one cell is sampled from some of them and none from the rest.
    """

    def __init__(self, limit: int, images: int, seed: int) -> None:
        self.seed = seed
        quota, remainder = divmod(limit, images)
        self.quota = np.full(images, quota)
        self.quota[np.random.default_rng(seed).permutation(images)[:remainder]] += 1
        self.count = 0
        self._arrays: tuple[Tensor, Tensor, Tensor] | None = None

    def add(self, features: Tensor, row: int, inside: np.ndarray | None) -> None:
        """Samples patches of image `row` from features (P, D). inside: bool (P,), cells to use; all if none is True."""
        cells = np.arange(len(features)) if inside is None or not inside.any() else np.flatnonzero(inside)
        sample = np.random.default_rng([self.seed, row]).permutation(cells)[: self.quota[row]]
        index = torch.from_numpy(np.sort(sample)).to(features.device)
        slots = slice(self.count, self.count + len(index))
        pool, rows, pool_cells = self._allocated(features)
        pool[slots], rows[slots], pool_cells[slots] = features[index], row, index
        self.count = slots.stop

    def _allocated(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Allocates the whole pool at once.

        Thousands of small tensors between the large ones of the encoder's passes would fragment the memory, by 500 kB
        per image (measured).
        """
        if self._arrays is None:
            count = int(self.quota.sum())
            rows, cells = (torch.empty(count, dtype=torch.long, device=features.device) for _ in range(2))
            self._arrays = features.new_empty(count, features.shape[1]), rows, cells
        return self._arrays

    def all(self) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the pool: features (N, D), rows (N,), cells (N,). Raises ValueError if no image was added."""
        if self._arrays is None:
            raise ValueError("no patch was drawn")
        features, rows, cells = (array[: self.count] for array in self._arrays)
        return features, rows, cells


# The choice of a memory's patches: greedy k-centre, as in PatchCore (Roth et al. 2022, Algorithm 1), many at a time.


CANDIDATES = 256


def greedy_coreset(features: Tensor, count: int, generator: torch.Generator, width: int = 128) -> Tensor:
    """Selects a coreset: indices (count,) of patches, each the farthest from those selected before it.

    The first patch is random. The result is the same as if patches were selected one by one, but the work is done in
    rounds. A round selects among the CANDIDATES farthest patches and updates only their distances, until another patch
    could be farther than all of them; then all distances are updated in one product.

    Args:
        features: float32 (N, D).
        count: Size of the coreset; if N is not larger, all patches are returned in order.
        generator: Source of randomness.
        width: Features with more values are first projected to this many at random (Johnson and Lindenstrauss).
    """
    n = len(features)
    if count >= n:
        return torch.arange(n, device=features.device)
    x = _projected(features, width, generator)
    norms = x.square().sum(1)
    first = int(torch.randint(n, (1,), generator=generator))
    chosen = [first]
    distances = _squared(x, norms, x[first : first + 1], norms[first : first + 1])[:, 0]  # (N,), to the nearest chosen
    distances[first] = -1
    while len(chosen) < count:
        farthest, index = distances.topk(min(CANDIDATES, n))
        candidates = x[index]
        between = _squared(candidates, norms[index], candidates, norms[index]).cpu().numpy()
        left, floor = farthest.cpu().numpy().copy(), float(farthest[-1])  # NumPy's steps take a tenth of torch's
        picked: list[int] = []
        while len(chosen) + len(picked) < count:
            best = int(left.argmax())
            if picked and left[best] < floor:
                break
            picked.append(best)
            np.minimum(left, between[best], out=left)
            left[best] = -1
        selected = index[picked]
        distances = torch.minimum(distances, _squared(x, norms, x[selected], norms[selected]).amin(1))
        distances[selected] = -1
        chosen += selected.tolist()
    return torch.tensor(chosen, device=features.device)


def _largest(rows: Tensor) -> Tensor:
    """Returns the index (N,) of the largest value of each row (N, M); on a CPU NumPy takes a fifth of torch's time."""
    if rows.device.type == "cuda" or torch.compiler.is_exporting():
        return rows.argmax(1)
    return torch.from_numpy(rows.numpy().argmax(1))


def _projected(features: Tensor, width: int, generator: torch.Generator) -> Tensor:
    x = features - features.mean(0)
    if x.shape[1] <= width:
        return x
    directions = torch.randn(x.shape[1], width, generator=generator).to(x)
    return x @ (directions / width**0.5)


def _squared(a: Tensor, a_norms: Tensor, b: Tensor, b_norms: Tensor) -> Tensor:
    """Computes squared distances (N, M) of a (N, D) from b (M, D), given their squared norms (N,) and (M,)."""
    return products(a, -2 * b, b_norms).add_(a_norms[:, None]).clamp_(min=0)


# Patches from an encoder's maps, and a memory from the patches of normal images.


def patches_of(maps: dict[int, Tensor], strides: tuple[int, ...]) -> Tensor:
    """Computes patches (B, h, w, D + 2) from maps (B, C, h, w) by stride: features, then the position.

    Each map is averaged over 3 x 3 cells (without padding at the edge) and interpolated to the grid of the finest
    stride. The position is the centre (y, x) of the cell, from 0 to 1.
    """
    shape = maps[strides[0]].shape[2:]
    planes = []
    for stride in strides:
        m = F.avg_pool2d(maps[stride].float(), 3, 1, 1, count_include_pad=False)
        if m.shape[2:] != shape:
            m = F.interpolate(m, shape, mode="bilinear", align_corners=False)
        planes.append(m)
    y, x = (torch.arange(n, device=m.device).add(0.5).div(n) for n in shape)
    position = torch.stack(torch.meshgrid(y, x, indexing="ij"))  # (2, h, w)
    planes.append(position.expand(m.shape[0], -1, -1, -1))
    return torch.cat(planes, 1).permute(0, 2, 3, 1)


def scales_of(pool: Tensor, widths: list[int], balance: bool, position: float) -> Tensor:
    """Computes the factors (D + 2,) that patches are multiplied by before distances are computed.

    Args:
        pool: Patches (N, D + 2).
        widths: The number of features of each map.
        balance: Whether the features of each map are scaled to a total variance of 1.
        position: Weight of the position, relative to the standard deviation of the features.
    """
    variances = [columns.var(0, unbiased=False).sum() for columns in pool[:, :-2].split(widths, 1)]
    factors = [v.clamp(min=1e-12).rsqrt() if balance else torch.ones_like(v) for v in variances]
    total = sum(v * f.square() for v, f in zip(variances, factors, strict=True))
    feature_factors = [f.expand(width) for f, width in zip(factors, widths, strict=True)]
    return torch.cat([*feature_factors, (position * total.sqrt()).expand(2)])


def scaled(patches: Tensor, scales: Tensor) -> Tensor:
    """Scales patches (..., D + 2) by factors (D + 2,) or a matrix (D + 2, K), so that distances can be computed."""
    return patches * scales if scales.ndim == 1 else patches @ scales


def whitening(covariance: Tensor, variance: float, shrinkage: float) -> Tensor:
    """Computes a whitening matrix (D, K) of a covariance (D, D), as MH-PatchCore does (Ferrari et al. 2026).

    K is the smallest number of principal components that explain the share `variance` of the variance. The covariance
    is shrunk by `shrinkage` towards a multiple of the identity; each component is divided by its standard deviation.
    """
    values, vectors = (x.flip(-1) for x in torch.linalg.eigh(covariance))
    values = values.clamp(min=0)
    explained = values.cumsum(0) / values.sum().clamp(min=1e-12)
    leading = values[: min(int((explained < variance - 1e-12).sum()) + 1, len(values))]
    shrunk = (1 - shrinkage) * leading + shrinkage * leading.mean()
    return vectors[:, : len(leading)] / shrunk.clamp(min=1e-8 * leading.mean().clamp(min=1e-12)).sqrt()


class NearestFitting:
    """A fit of a memory in progress: patches are sampled from each image as its maps arrive.

    The mean and covariance for whitening are computed from all patches in the same pass.
    """

    def __init__(self, kind: Any, encoder: Encoder, config: Any, count: int, size: int, roi: np.ndarray | None) -> None:
        self.kind, self.encoder, self.config, self.size, self.roi = kind, encoder, config, size, roi
        self.pool = Pool(config.pool, count, config.seed)
        self.count, self.sum, self.products = 0, torch.zeros(()), torch.zeros(())

    def add(self, maps: dict[int, Tensor], start: int) -> None:
        patches = patches_of(maps, self.config.strides)
        shape = tuple(patches.shape[1:3])
        inside = None if self.roi is None else roi_at(self.roi[start : start + len(patches)], shape)
        for i, features in enumerate(patches.flatten(1, 2)):
            cells = None if inside is None else inside[i].ravel()
            self.pool.add(features, start + i, cells)
            if self.config.whitened:
                use_all = cells is None or not cells.any()
                x = (features if use_all else features[torch.from_numpy(cells)])[:, :-2].double()
                self.count, self.sum, self.products = self.count + len(x), x.sum(0) + self.sum, x.T @ x + self.products

    def scales(self, features: Tensor) -> Tensor:
        """Computes the factors or the matrix for `scaled` from the pool (N, D + 2)."""
        if self.config.whitened:
            mean = self.sum / self.count
            covariance = (self.products - self.count * torch.outer(mean, mean)) / max(self.count - 1, 1)
            matrix = whitening(covariance, self.config.variance, self.config.shrinkage)
            return torch.cat([matrix, matrix.new_zeros(2, matrix.shape[1])]).to(features)  # the position is not used
        widths = [self.encoder.widths[stride] for stride in self.config.strides]
        return scales_of(features, widths, self.config.balance, self.config.position)

    def finish(self) -> Any:
        """Returns the detector, with a memory selected from the pool by the configuration's seed."""
        config = self.config
        features, rows, cells = self.pool.all()
        scales = self.scales(features)
        features = scaled(features, scales)
        generator = torch.Generator().manual_seed(config.seed)
        if config.coreset == "greedy":
            coreset = greedy_coreset(features, config.patches, generator)
        else:
            coreset = torch.randperm(len(features), generator=generator)[: config.patches].to(features.device)
        memory = Memory.of(features[coreset], rows[coreset], cells[coreset], config.neighbours)
        return self.kind(self.encoder, config, self.size, scales, memory)
