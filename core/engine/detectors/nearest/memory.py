"""A bounded memory of normal patches: gathered image by image, thinned to a coreset, and searched exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.backbones.encoder import Encoder
from core.engine.calibration.heatmap import roi_at

CHUNK = 1024  # queries compared at a time: 1024 x 8000 distances are 33 MB


class Memory(nn.Module):
    """M normal patches. features float32 (M, D); rows (M,) training image of each; cells (M,) its flat place there.

    neighbours: (M, b), each patch's b nearest of the memory, itself first.
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
        centre = features.mean(0)  # products of centred features lose fewer digits
        self.register_buffer("centre", centre, persistent=False)
        self.register_buffer("centred", features - centre, persistent=False)
        self.register_buffer("half_norms", self.centred.square().sum(1) / 2, persistent=False)

    @classmethod
    def of(cls, features: Tensor, rows: Tensor, cells: Tensor, neighbours: int) -> Memory:
        memory = cls(features, rows, cells, torch.zeros(len(features), 0, dtype=torch.long, device=features.device))
        wanted = min(neighbours, len(features))
        if wanted:
            memory.neighbours = memory.search(features, wanted)[1]
        return memory

    def search(self, queries: Tensor, count: int = 1) -> tuple[Tensor, Tensor]:
        """Finds the patches nearest to queries (Q, D) -> distances (Q, count), nearest first, and indices (Q, count).

        All pairs are compared. The order comes from products; the distances given are then taken of differences, so
        that equal patches are at 0 exactly.
        """
        indices = []
        for chunk in (queries - self.centre).split(CHUNK):
            closeness = torch.addmm(self.half_norms.neg()[None], chunk, self.centred.T)  # |q|^2 is the same for all
            indices.append(closeness.argmax(1, keepdim=True) if count == 1 else closeness.topk(count, 1).indices)
        index = torch.cat(indices) if indices else torch.zeros(0, count, dtype=torch.long)
        distances = self.distances(queries, index)
        if count > 1:
            distances, order = distances.sort(1)
            index = index.gather(1, order)
        return distances, index

    def distances(self, queries: Tensor, index: Tensor) -> Tensor:
        """Computes Euclidean distances (Q, c) of queries (Q, D) from the patches at index (Q, c) of the memory."""
        columns = [(queries - self.features[column]).square().sum(1) for column in index.T]
        return torch.stack(columns, 1).sqrt_() if columns else queries.new_zeros(len(queries), 0)

    def weights(self, queries: Tensor, distances: Tensor, index: Tensor, power: int = 1) -> Tensor:
        """Computes PatchCore's factor (Q,) of a score (Roth et al. 2022, Eq. 7).

        It is 1 - exp(d*) / sum of exp(d) over the neighbours of the nearest patch. queries (Q, D); distances, index
        (Q,): of each one's nearest patch; d is a distance to that `power`.
        """
        if self.neighbours.shape[1] < 2:
            return torch.ones_like(distances)
        around = self.distances(queries, self.neighbours[index]).pow(power)
        return 1 - (distances.pow(power) - around.logsumexp(1)).exp()


class Pool:
    """At most `limit` patches, drawn from the images of a study, from which a memory is chosen.

    Each image gives the same number of its cells, drawn from (seed, image); if there are more images than `limit`, some
    give one cell and the others none. So the pool does not depend on how the images are batched.
    """

    def __init__(self, limit: int, images: int, seed: int) -> None:
        self.seed = seed
        each, more = divmod(limit, images)
        self.quota = np.full(images, each)
        self.quota[np.random.default_rng(seed).permutation(images)[:more]] += 1
        self.drawn = 0
        self._room: tuple[Tensor, Tensor, Tensor] | None = None

    def add(self, features: Tensor, row: int, inside: np.ndarray | None) -> None:
        """Draws from features (P, D) of image `row`; inside: bool (P,), cells to draw from (all where it has none)."""
        cells = np.arange(len(features)) if inside is None or not inside.any() else np.flatnonzero(inside)
        drawn = np.random.default_rng([self.seed, row]).permutation(cells)[: self.quota[row]]
        index = torch.from_numpy(np.sort(drawn)).to(features.device)
        place = slice(self.drawn, self.drawn + len(index))
        room, rows, places = self._rooms(features)
        room[place], rows[place], places[place] = features[index], row, index
        self.drawn = place.stop

    def _rooms(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Room for all that will be drawn, taken at once: thousands of small tensors kept between the large ones of the
        encoder's passes would leave gaps that no later pass fits in (500 kB an image, measured).
        """
        if self._room is None:
            count = int(self.quota.sum())
            rows, cells = (torch.empty(count, dtype=torch.long, device=features.device) for _ in range(2))
            self._room = features.new_empty(count, features.shape[1]), rows, cells
        return self._room

    def all(self) -> tuple[Tensor, Tensor, Tensor]:
        """Returns all draws: features (N, D), rows (N,), cells (N,). Raises ValueError before an image was added."""
        if self._room is None:
            raise ValueError("no patch was drawn")
        features, rows, cells = (room[: self.drawn] for room in self._room)
        return features, rows, cells


# Which patches a memory keeps: greedy k-centre, as in PatchCore (Roth et al. 2022, Algorithm 1), many at a time.


CANDIDATES = 256


def greedy_coreset(features: Tensor, count: int, generator: torch.Generator, width: int = 128) -> Tensor:
    """Chooses a coreset: indices (count,) of patches, each the farthest from those chosen before it.

    features: float32 (N, D); beyond `width` values they are first projected at random (Johnson and Lindenstrauss). The
    first index is drawn. The choice is exactly that of one farthest patch after another, in rounds: as long as the
    best of the farthest CANDIDATES is no nearer than the last of them was at the round's start, no other patch can be
    farther, so only the candidates' distances need to be known. The others' follow in one product a round.
    """
    n = len(features)
    if count >= n:
        return torch.arange(n, device=features.device)
    x = _projected(features, width, generator)
    norms = x.square().sum(1)
    first = int(torch.randint(n, (1,), generator=generator))
    chosen = [first]
    away = _squared(x, norms, x[first : first + 1], norms[first : first + 1])[:, 0]  # (N,), to the nearest chosen
    away[first] = -1
    while len(chosen) < count:
        far, index = away.topk(min(CANDIDATES, n))
        candidates, floor = x[index], float(far[-1])
        between = _squared(candidates, norms[index], candidates, norms[index])
        picked: list[int] = []
        while len(chosen) + len(picked) < count:
            best = int(far.argmax())
            if picked and float(far[best]) < floor:
                break
            picked.append(best)
            far = torch.minimum(far, between[best])
            far[best] = -1
        taken = index[picked]
        away = torch.minimum(away, _squared(x, norms, x[taken], norms[taken]).amin(1))
        away[taken] = -1
        chosen += taken.tolist()
    return torch.tensor(chosen, device=features.device)


def _projected(features: Tensor, width: int, generator: torch.Generator) -> Tensor:
    x = features - features.mean(0)
    if x.shape[1] <= width:
        return x
    directions = torch.randn(x.shape[1], width, generator=generator).to(x)
    return x @ (directions / width**0.5)


def _squared(a: Tensor, a_norms: Tensor, b: Tensor, b_norms: Tensor) -> Tensor:
    """(N, D), (N,), (M, D), (M,) -> squared distances (N, M)."""
    return torch.addmm(b_norms[None], a, b.T, alpha=-2).add_(a_norms[:, None]).clamp_(min=0)


# From an encoder's maps to patches, and from the patches of normal images to a memory.


def patches_of(maps: dict[int, Tensor], strides: tuple[int, ...]) -> Tensor:
    """Makes patches of maps (B, C, h, w) by stride -> (B, h, w, D + 2): features, then the place.

    Each map is averaged over 3 x 3 cells (of the image alone at its edge) and interpolated to the finest stride's grid.
    The place is (y, x) of the cell's middle, from 0 to 1.
    """
    shape = maps[strides[0]].shape[2:]
    parts = []
    for stride in strides:
        m = F.avg_pool2d(maps[stride].float(), 3, 1, 1, count_include_pad=False)
        if m.shape[2:] != shape:
            m = F.interpolate(m, shape, mode="bilinear", align_corners=False)
        parts.append(m)
    y, x = (torch.arange(n, device=m.device).add(0.5).div(n) for n in shape)
    place = torch.stack(torch.meshgrid(y, x, indexing="ij"))  # (2, h, w)
    parts.append(place.expand(m.shape[0], -1, -1, -1))
    return torch.cat(parts, 1).permute(0, 2, 3, 1)


def scales_of(pool: Tensor, widths: list[int], balance: bool, position: float) -> Tensor:
    """Computes factors (D + 2,) for the values of a patch, applied before distances are taken. pool (N, D + 2).

    balance: each map's features get a variance of 1 in all. The place is put on the scale of the features' deviation.
    """
    variances = [columns.var(0, unbiased=False).sum() for columns in pool[:, :-2].split(widths, 1)]
    factors = [v.clamp(min=1e-12).rsqrt() if balance else torch.ones_like(v) for v in variances]
    total = sum(v * f.square() for v, f in zip(variances, factors, strict=True))
    parts = [f.expand(width) for f, width in zip(factors, widths, strict=True)]
    return torch.cat([*parts, (position * total.sqrt()).expand(2)])


def scaled(patches: Tensor, scales: Tensor) -> Tensor:
    """Brings patches (..., D + 2) into the space of distances: scales (D + 2,), one a value, or a matrix (D + 2, K)."""
    return patches * scales if scales.ndim == 1 else patches @ scales


def whitening(covariance: Tensor, variance: float, shrinkage: float) -> Tensor:
    """Computes a whitening matrix (D, K) of a covariance (D, D), as MH-PatchCore does (Ferrari et al. 2026).

    The K principal components with the most variance are kept, as few as explain the share `variance` of it. The
    covariance is shrunk by `shrinkage` towards a multiple of the identity, and each component divided by its deviation.
    """
    values, vectors = (x.flip(-1) for x in torch.linalg.eigh(covariance))
    values = values.clamp(min=0)
    explained = values.cumsum(0) / values.sum().clamp(min=1e-12)
    leading = values[: min(int((explained < variance - 1e-12).sum()) + 1, len(values))]
    shrunk = (1 - shrinkage) * leading + shrinkage * leading.mean()
    return vectors[:, : len(leading)] / shrunk.clamp(min=1e-8 * leading.mean().clamp(min=1e-12)).sqrt()


class NearestFitting:
    """The fit of a memory in progress: patches are drawn from each image as its maps arrive.

    If patches are to be whitened, their mean and covariance are of all patches, summed in the same pass.
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
                every = cells is None or not cells.any()
                x = (features if every else features[torch.from_numpy(cells)])[:, :-2].double()
                self.count, self.sum, self.products = self.count + len(x), x.sum(0) + self.sum, x.T @ x + self.products

    def scales(self, features: Tensor) -> Tensor:
        """Computes what patches are multiplied by before distances are taken (`Nearest`) from the pool (N, D + 2)."""
        if self.config.whitened:
            mean = self.sum / self.count
            covariance = (self.products - self.count * torch.outer(mean, mean)) / max(self.count - 1, 1)
            matrix = whitening(covariance, self.config.variance, self.config.shrinkage)
            return torch.cat([matrix, matrix.new_zeros(2, matrix.shape[1])]).to(features)  # the place has no part
        widths = [self.encoder.widths[stride] for stride in self.config.strides]
        return scales_of(features, widths, self.config.balance, self.config.position)

    def finish(self) -> Any:
        """Returns the detector. Its memory is chosen from the pool by the configuration's seed."""
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
