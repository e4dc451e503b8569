"""Memory of normal patches: patches are sampled from each image, reduced to a coreset, and searched exactly."""

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

CHUNK = 512  # number of queries compared at a time: 512 x 8000 distances take 16 MB


class Memory(nn.Module):
    """Features of M patches of normal images, in which the nearest neighbours of other patches are searched."""

    features: Tensor  # float32 (M, D)
    rows: Tensor  # (M,), index of the image of the fit that contains the patch
    cells: Tensor  # (M,), flat index of the patch's position in that image
    neighbours: Tensor  # (M, b), indices of the b patches nearest to each patch, beginning with the patch itself
    centre: Tensor
    centred: Tensor
    half_norms: Tensor

    def __init__(self, features: Tensor, rows: Tensor, cells: Tensor, neighbours: Tensor) -> None:
        super().__init__()
        for name, value in {"features": features, "rows": rows, "cells": cells, "neighbours": neighbours}.items():
            self.register_buffer(name, value)
        centre = features.mean(0)  # because products of centred features are more precise
        self.register_buffer("centre", centre, persistent=False)
        self.register_buffer("centred", features - centre, persistent=False)
        self.register_buffer("half_norms", self.centred.square().sum(1) / 2, persistent=False)

    @classmethod
    def of(cls, features: Tensor, rows: Tensor, cells: Tensor, neighbours: int) -> Memory:
        """Creates a memory and finds the `neighbours` patches nearest to each patch, the patch itself included."""
        memory = cls(features, rows, cells, torch.zeros(len(features), 0, dtype=torch.long, device=features.device))
        count = min(neighbours, len(features))
        if count:
            memory.neighbours = memory.search(features, count)[1]
        return memory

    def search(self, queries: Tensor, count: int = 1) -> tuple[Tensor, Tensor]:
        """Returns the distances and indices, each `(Q, count)`, of the patches nearest to each query, nearest first.

        Queries have the shape `(Q, D)`. All pairs are compared by matrix products. The distances are then computed from
        differences, so that equal patches have a distance of exactly 0.
        """
        index = torch.cat([closeness.topk(count, 1).indices for closeness in self._closeness(queries - self.centre)])
        distances, order = self.distances(queries, index).sort(1)
        return distances, index.gather(1, order)

    def weighted(self, queries: Tensor, power: int = 1) -> tuple[Tensor, Tensor]:
        """Returns the distance of each query from its nearest patch, and this distance's weight in PatchCore, `(Q,)`.

        The weight is 1 - exp(d*) / sum of exp(d) (Roth et al. 2022, Eq. 7), where d* is the distance to the nearest
        patch and d the distance to each neighbour of that patch. d is computed from products, with a precision of about
        1e-5. Queries have the shape `(Q, D)`, and `power` is the exponent of d and d* in the weight.
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
        """Yields q m - |m|^2 / 2 for all patches m and some of the queries q, from which the centre was subtracted.

        The value grows as the distance shrinks, because |q - m|^2 = |q|^2 - 2 (q m - |m|^2 / 2).
        """
        for chunk in [centred] if torch.compiler.is_exporting() else centred.split(CHUNK):
            yield products(chunk, self.centred, self.half_norms.neg())

    def distances(self, queries: Tensor, index: Tensor) -> Tensor:
        """Computes Euclidean distances, `(Q, c)`, of queries, `(Q, D)`, from the patches at `index`, `(Q, c)`."""
        columns = [(queries - self.features[column]).square().sum(1) for column in index.T]
        return torch.stack(columns, 1).sqrt_() if columns else queries.new_zeros(len(queries), 0)


class Pool:
    """Random sample of at most `limit` patches from all images, from which the patches of a memory are selected.

    Equal numbers of patches, give or take one, are sampled from the images. The seed depends only on the image, so that
    the batch size has no effect. If there are more images than `limit`, some images contribute one patch, the others
    none.
    """

    def __init__(self, limit: int, images: int, seed: int) -> None:
        self.seed = seed
        quota, remainder = divmod(limit, images)
        self.quota = np.full(images, quota)
        self.quota[np.random.default_rng(seed).permutation(images)[:remainder]] += 1
        self.count = 0
        self._arrays: tuple[Tensor, Tensor, Tensor] | None = None

    def add(self, features: Tensor, row: int, inside: np.ndarray | None) -> None:
        """Samples patches of the image with index `row` from the features at all its P positions, `(P, D)`.

        Only positions that are True in `inside`, `bool (P,)`, are sampled, or all positions if there are none.
        """
        cells = np.arange(len(features)) if inside is None or not inside.any() else np.flatnonzero(inside)
        sample = np.random.default_rng([self.seed, row]).permutation(cells)[: self.quota[row]]
        index = torch.from_numpy(np.sort(sample)).to(features.device)
        slots = slice(self.count, self.count + len(index))
        pool, rows, pool_cells = self._allocated(features)
        pool[slots], rows[slots], pool_cells[slots] = features[index], row, index
        self.count = slots.stop

    def _allocated(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Allocates the entire pool at once.

        Thousands of small tensors between the encoder's large ones would fragment the memory, by 500 kB per image.
        """
        if self._arrays is None:
            count = int(self.quota.sum())
            rows, cells = (torch.empty(count, dtype=torch.long, device=features.device) for _ in range(2))
            self._arrays = features.new_empty(count, features.shape[1]), rows, cells
        return self._arrays

    def all(self) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the sample's features, `(N, D)`, image indices and positions, `(N,)`. Raises ValueError if empty."""
        if self._arrays is None:
            raise ValueError("the pool has no patches: add an image first")
        features, rows, cells = (array[: self.count] for array in self._arrays)
        return features, rows, cells


CANDIDATES = 256  # number of patches among which a round of `greedy_coreset` selects


def greedy_coreset(features: Tensor, count: int, generator: torch.Generator, width: int = 128) -> Tensor:
    """Returns the indices `(count,)` of a coreset by greedy k-centre: each patch is the farthest from those before it.

    This is Algorithm 1 of PatchCore (Roth et al. 2022), with a random first patch, computed in rounds with the same
    result. A round selects only among the CANDIDATES farthest patches and updates only their distances. It ends when
    another patch could be farther than all of them. Then all distances are updated in one matrix product.

    Args:
        features: Features of N patches, `float32 (N, D)`.
        count: Number of patches to select. If N is not larger, the indices of all patches are returned in order.
        generator: Generator of the random numbers.
        width: Maximum number of features. More features are first reduced at random (Johnson and Lindenstrauss).
    """
    n = len(features)
    if count >= n:
        return torch.arange(n, device=features.device)
    x = _projected(features, width, generator)
    norms = x.square().sum(1)
    first = int(torch.randint(n, (1,), generator=generator))
    chosen = [first]
    distances = _squared(x, norms, x[first : first + 1], norms[first : first + 1])[:, 0]  # from the nearest chosen one
    distances[first] = -1
    while len(chosen) < count:
        farthest, index = distances.topk(min(CANDIDATES, n))
        candidates = x[index]
        between = _squared(candidates, norms[index], candidates, norms[index]).cpu().numpy()
        remaining, floor = farthest.cpu().numpy().copy(), float(farthest[-1])  # NumPy takes a tenth of torch's time
        picked: list[int] = []
        while len(chosen) + len(picked) < count:
            best = int(remaining.argmax())
            if picked and remaining[best] < floor:
                break
            picked.append(best)
            np.minimum(remaining, between[best], out=remaining)
            remaining[best] = -1
        selected = index[picked]
        distances = torch.minimum(distances, _squared(x, norms, x[selected], norms[selected]).amin(1))
        distances[selected] = -1
        chosen += selected.tolist()
    return torch.tensor(chosen, device=features.device)


def _largest(rows: Tensor) -> Tensor:
    if rows.device.type == "cuda" or torch.compiler.is_exporting():
        return rows.argmax(1)  # on a CPU, NumPy takes a fifth of torch's time
    return torch.from_numpy(rows.numpy().argmax(1))


def _projected(features: Tensor, width: int, generator: torch.Generator) -> Tensor:
    x = features - features.mean(0)
    if x.shape[1] <= width:
        return x
    directions = torch.randn(x.shape[1], width, generator=generator).to(x)
    return x @ (directions / width**0.5)


def _squared(a: Tensor, a_norms: Tensor, b: Tensor, b_norms: Tensor) -> Tensor:
    return products(a, -2 * b, b_norms).add_(a_norms[:, None]).clamp_(min=0)


def patches_of(maps: dict[int, Tensor], strides: tuple[int, ...]) -> Tensor:
    """Computes the features and the position of each patch, `(B, h, w, D + 2)`, from maps, `(B, C, h, w)`, by stride.

    Each map is averaged over 3 x 3 cells (without padding at the edge) and interpolated to the grid of the finest
    stride. The position is the centre (y, x) of the cell, with values from 0 to 1.
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
    """Computes the factors, `(D + 2,)`, by which patches are multiplied before distances are computed.

    Args:
        pool: Features and positions of N patches, `(N, D + 2)`.
        widths: Number of features from each map.
        balance: Whether the features of each map are scaled to a total variance of 1.
        position: Weight of the position, relative to the standard deviation of the features.
    """
    variances = [columns.var(0, unbiased=False).sum() for columns in pool[:, :-2].split(widths, 1)]
    factors = [v.clamp(min=1e-12).rsqrt() if balance else torch.ones_like(v) for v in variances]
    total = sum(v * f.square() for v, f in zip(variances, factors, strict=True))
    feature_factors = [f.expand(width) for f, width in zip(factors, widths, strict=True)]
    return torch.cat([*feature_factors, (position * total.sqrt()).expand(2)])


def scaled(patches: Tensor, scales: Tensor) -> Tensor:
    """Multiplies patches, `(..., D + 2)`, by `scales`: factors, `(D + 2,)`, or a matrix, `(D + 2, K)`."""
    return patches * scales if scales.ndim == 1 else patches @ scales


def whitening(covariance: Tensor, variance: float, shrinkage: float) -> Tensor:
    """Computes a whitening matrix, `(D, K)`, as in Mahalanobis PatchCore (Ferrari et al. 2026).

    Args:
        covariance: Covariance of the features, `(D, D)`.
        variance: Minimum fraction of the variance that the K leading principal components explain together.
        shrinkage: Weight of the mean variance when the variances of the components are shrunk towards their mean.
    """
    values, vectors = (x.flip(-1) for x in torch.linalg.eigh(covariance))
    values = values.clamp(min=0)
    explained = values.cumsum(0) / values.sum().clamp(min=1e-12)
    leading = values[: min(int((explained < variance - 1e-12).sum()) + 1, len(values))]
    shrunk = (1 - shrinkage) * leading + shrinkage * leading.mean()
    return vectors[:, : len(leading)] / shrunk.clamp(min=1e-8 * leading.mean().clamp(min=1e-12)).sqrt()


class NearestFitting:
    """Fit in progress. Patches sampled from each image form the memory, but all patches are used for the whitening."""

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
        if self.config.whitened:
            mean = self.sum / self.count
            covariance = (self.products - self.count * torch.outer(mean, mean)) / max(self.count - 1, 1)
            matrix = whitening(covariance, self.config.variance, self.config.shrinkage)
            return torch.cat([matrix, matrix.new_zeros(2, matrix.shape[1])]).to(features)  # the position is not used
        widths = [self.encoder.widths[stride] for stride in self.config.strides]
        return scales_of(features, widths, self.config.balance, self.config.position)

    def finish(self) -> Any:
        """Selects the memory from the pool with the configuration's seed, and returns the fitted detector."""
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
