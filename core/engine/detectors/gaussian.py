"""One multivariate normal distribution per position of a feature pyramid, without a loop over positions.

PaDiM concatenates feature maps of several resolutions after nearest up-sampling (Sec. Anomaly Detection and
Segmentation). All fine cells within one coarse cell share its features, so most blocks of their covariances are equal.
Each shared block is stored once. With the levels l ordered from coarse to fine and y the whitened features, the
Cholesky factors give

    d^2 = sum over levels of |y_l|^2,    y_l = G_l [y_coarser ; x_l - mu_l]

This equals (x - mu)^T Sigma^-1 (x - mu) of the concatenated features exactly, in about a fifth of the memory and work.
Positions are stored in nested order: the fine cells (children) of a coarse cell are adjacent, so that blocks are shared
by reshaping.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.detectors.base import Tensors

FIELDS = ("mean", "own", "cross")  # names of the fields of a Level
CHUNK = 512  # positions at a time: enough to keep the cores busy, few enough to fit their caches


@dataclass
class Level:
    """Mean and covariance blocks of one level at P positions, or the blocks of the level's G_l (see the module)."""

    mean: Tensor  # (P, c)
    own: Tensor  # (P, c, c), block of the level's channels
    cross: Tensor  # (P, c, C), block of the level's channels with the C channels of coarser levels

    @classmethod
    def empty(cls, like: Tensor, coarser: int) -> Level:
        """Creates a level for features `like`, `(P, B, c)`, where all coarser levels together have `coarser` channels.

        Means are float64 zeros. `own` and `cross` have the type of `like` and are not initialised.
        """
        p, _, c = like.shape
        return cls(like.new_zeros(p, c, dtype=torch.float64), like.new_empty(p, c, c), like.new_empty(p, c, coarser))

    def scatter(self, rows: Tensor, coarser: Tensor | None, summed: bool) -> None:
        """Adds the products of centred features with themselves and with the features of coarser levels.

        `rows` are the features, `(P, B, c)`, and `coarser` those of coarser levels, `(Q, B, C)`. `summed` is whether
        the level already holds sums. Otherwise its uninitialised values are overwritten.
        """
        transposed = rows.transpose(1, 2)
        self.own.baddbmm_(transposed, rows, beta=int(summed))
        if coarser is not None:
            family = transposed.reshape(len(coarser), -1, rows.shape[1])
            self.families(len(coarser)).baddbmm_(family, coarser, beta=int(summed))

    def families(self, parents: int) -> Tensor:
        """Returns a view of `cross` by parent cell, `(parents, P / parents * c, C)`, with the rows of its children."""
        return self.cross.view(parents, -1, self.cross.shape[2])


class Moments:
    """Running mean (float64) and scatter at every position. Memory use does not grow with the number of images.

    Each batch is centred on its mean and merged as in Chan, Golub and LeVeque (1983). Large sums are never subtracted,
    so float32 scatters agree with float64 ones even if the features are far from zero.
    """

    def __init__(self) -> None:
        self.pyramid: Pyramid | None = None
        self.count = 0
        self.levels: list[Level] = []

    def add(self, maps: list[Tensor]) -> None:
        """Adds the maps of a batch of images, each `float32 (B, c, h, w)`, from fine to coarse."""
        if self.pyramid is None:
            self.pyramid = Pyramid.of(maps)
        joined: Tensor | None = None
        b = len(maps[0])
        for depth, x in enumerate(self.pyramid.cells(maps)):
            if len(self.levels) == depth:
                self.levels.append(Level.empty(x, sum(self.pyramid.channels[:depth])))
            level = self.levels[depth]
            mean = x.mean(1).double()
            step = mean - level.mean
            weight = (self.count * b / (self.count + b)) ** 0.5
            # An additional row accounts for the shift between the batch's mean and the running mean.
            rows = torch.cat([x, (weight * step)[:, None].to(x.dtype)], 1)
            rows[:, :b] -= mean[:, None].to(x.dtype)
            level.scatter(rows, joined, summed=self.count > 0)
            if depth + 1 < len(self.pyramid.grids):
                joined = _below(joined, rows)
            level.mean += step * (b / (self.count + b))
        self.count += b

    def finish(self, epsilon: float = 0.01) -> Gaussian:
        """Returns the distributions, with covariances scatter / (count - 1) + epsilon I. Call this method only once.

        Raises ValueError for fewer than 2 images or a singular covariance.
        """
        if self.count < 2 or self.pyramid is None:
            raise ValueError(f"a covariance needs at least 2 normal images, not {self.count}")
        factorised: list[Level] = []
        for level in self.levels:
            positions = len(level.own)
            for start, stop in _chunks(positions, len(factorised[0].own) if factorised else positions):
                block = _cells_over(level, start, stop, positions)
                for scatter in (block.own, block.cross):
                    scatter /= self.count - 1
                block.own.diagonal(dim1=1, dim2=2).add_(epsilon)
                _factorise(block, [_cells_over(coarser, start, stop, positions) for coarser in factorised])
            level.mean = level.mean.float()
            factorised.append(level)
        self.levels = []
        return Gaussian(self.pyramid, factorised)


class Gaussian(nn.Module):
    """Normal distributions at all positions. `own` and `cross` of a level are the blocks of G_l (see the module)."""

    def __init__(self, pyramid: Pyramid, levels: list[Level]) -> None:
        super().__init__()
        self.pyramid = pyramid
        self.register_buffer("grids", torch.tensor(pyramid.grids))
        for depth, level in enumerate(levels):
            for name in FIELDS:
                self.register_buffer(f"{name}_{depth}", getattr(level, name))

    @classmethod
    def of(cls, tensors: Tensors) -> Gaussian:
        """Creates the distributions from saved buffers."""
        grids = tuple((h, w) for h, w in tensors["grids"].tolist())
        levels = [Level(*(tensors[f"{name}_{depth}"] for name in FIELDS)) for depth in range(len(grids))]
        return cls(Pyramid(grids, tuple(level.mean.shape[1] for level in levels)), levels)

    @property
    def levels(self) -> list[Level]:
        """Levels, from coarse to fine."""
        depths = range(len(self.pyramid.grids))
        return [Level(*(self.get_buffer(f"{name}_{depth}") for name in FIELDS)) for depth in depths]

    def coarsest(self) -> tuple[Tensor, Tensor]:
        """Returns the means and variances (with epsilon) of the coarsest level, each `float64 (P, c)`, row by row."""
        level = self.levels[0]
        inverse = level.own.double()  # of the covariance's Cholesky factor
        eye = torch.eye(inverse.shape[1], dtype=inverse.dtype, device=inverse.device).expand_as(inverse)
        factor = torch.linalg.solve_triangular(inverse, eye, upper=False)
        return level.mean.double(), factor.square().sum(2)

    def distance(self, maps: list[Tensor]) -> Tensor:
        """Computes Mahalanobis distances on the finest grid, `(B, h, w)`, for maps, `(B, c, h, w)`, fine to coarse."""
        squared: Tensor | None = None
        white: Tensor | None = None
        levels = self.levels
        for depth, (x, level) in enumerate(zip(self.pyramid.cells(maps), levels, strict=True)):
            y = torch.bmm(level.own, (x - level.mean[:, None]).transpose(1, 2))  # (P, c, B)
            if white is not None:
                y += torch.bmm(level.families(len(white)), white).view(y.shape)
            squares = y.square().sum(1)
            squared = squares if squared is None else spread(squared, len(squares)) + squares
            if depth + 1 < len(levels):
                white = y if white is None else torch.cat([spread(white, len(y)), y], 1)
        assert squared is not None  # a pyramid has at least one level
        return self.pyramid.plane(squared.sqrt_())


def _below(coarser: Tensor | None, rows: Tensor) -> Tensor:
    """Concatenates coarser features, `(Q, B, C)`, repeated for their children, with features of this level."""
    return rows if coarser is None else torch.cat([spread(coarser, len(rows)), rows], 2)


def _chunks(positions: int, families: int) -> list[tuple[int, int]]:
    """Splits positions into ranges of about CHUNK positions that do not separate the children of a coarse cell."""
    family = positions // families
    size = max(CHUNK // family, 1) * family
    return [(start, min(start + size, positions)) for start in range(0, positions, size)]


def _cells_over(level: Level, start: int, stop: int, positions: int) -> Level:
    """Returns the cells of `level` that cover positions `start` to `stop` of a finer level with `positions` cells."""
    family = positions // len(level.own)
    cut = slice(start // family, stop // family)
    return Level(level.mean[cut], level.own[cut], level.cross[cut])


def _factorise(level: Level, coarser: list[Level]) -> None:
    """Replaces the level's covariance blocks by its blocks of G, given the blocks of G of `coarser` levels."""
    at = 0
    for g in coarser:
        # Forward substitution, block by block, for all children of a parent in one product.
        rows, end = level.families(len(g.own)), at + g.own.shape[1]
        block = torch.bmm(rows[:, :, at:end], g.own.transpose(1, 2))
        if at:
            block.baddbmm_(rows[:, :, :at], g.cross.transpose(1, 2))
        rows[:, :, at:end] = block
        at = end
    if at:
        level.own.baddbmm_(level.cross, level.cross.transpose(1, 2), alpha=-1)
    level.own.copy_(inverse_cholesky(level.own))
    if at:
        level.cross.copy_(torch.bmm(level.own, level.cross).neg_())


BASE = 14  # matrix size below which unrolled columns are faster than batched products, measured on two CPU cores


def inverse_cholesky(a: Tensor) -> Tensor:
    """Computes L^-1 with a = L L^T for symmetric positive definite matrices a, `(P, n, n)`.

    LAPACK takes one matrix at a time. Here each matrix is split recursively into blocks, so that nearly all the
    work is batched matrix products: on one CPU core, a matrix of 100 x 100 takes 41 us instead of the 121 us of
    torch.linalg.cholesky and solve_triangular. Matrices for which float32 is not precise enough are factorised again in
    float64.

    Raises ValueError if a matrix is not positive definite in float64 either.
    """
    out = torch.zeros_like(a)
    _by_halves(a, out)
    bad = ~out.isfinite().flatten(1).all(1)
    if bad.any():
        factor, info = torch.linalg.cholesky_ex(a[bad].double())
        if info.any():
            raise ValueError("a covariance is not positive definite: raise epsilon, or check the images for NaN")
        eye = torch.eye(a.shape[1], dtype=factor.dtype, device=a.device).expand_as(factor)
        out[bad] = torch.linalg.solve_triangular(factor, eye, upper=False).to(a.dtype)
    return out


def _by_halves(a: Tensor, out: Tensor) -> None:
    n = a.shape[1]
    if n <= BASE:
        out.copy_(_by_columns(a))
        return
    h = (n + 1) // 2
    _by_halves(a[:, :h, :h], out[:, :h, :h])
    first, second = out[:, :h, :h], out[:, h:, h:]
    lower = torch.bmm(a[:, h:, :h], first.transpose(1, 2))
    _by_halves(torch.baddbmm(a[:, h:, h:], lower, lower.transpose(1, 2), alpha=-1), second)
    out[:, h:, :h] = torch.bmm(second, torch.bmm(lower, first)).neg_()


def _by_columns(a: Tensor) -> Tensor:
    """Computes L^-1 for small n by elimination on [a | I]. Positions are innermost, so each step is a long vector."""
    n = a.shape[1]
    a = a.permute(1, 2, 0).contiguous()
    w = torch.zeros_like(a)
    w.diagonal(dim1=0, dim2=1).fill_(1)
    for j in range(n):
        scale = a[j, j].rsqrt()
        w[j, : j + 1] *= scale
        if j + 1 < n:
            column = a[j + 1 :, j] * scale
            a[j + 1 :, j + 1 :].addcmul_(column[:, None], column[None], value=-1)
            w[j + 1 :, : j + 1].addcmul_(column[:, None], w[None, j, : j + 1], value=-1)
    return w.permute(2, 0, 1)


@dataclass(frozen=True)
class Pyramid:
    """Grid sizes (h, w) and numbers of channels of a pyramid, from coarse to fine. Each size divides the next."""

    grids: tuple[tuple[int, int], ...]
    channels: tuple[int, ...]

    @classmethod
    def of(cls, maps: list[Tensor]) -> Pyramid:
        """Returns the pyramid of maps, `(B, c, h, w)`, fine to coarse. If not nested, all grids become the finest."""
        grids = [(m.shape[2], m.shape[3]) for m in reversed(maps)]
        nested = all(b[0] % a[0] == 0 and b[1] % a[1] == 0 for a, b in zip(grids, grids[1:], strict=False))
        if not nested:
            grids = [grids[-1]] * len(grids)
        return cls(tuple(grids), tuple(m.shape[1] for m in reversed(maps)))

    def cells(self, maps: list[Tensor]) -> list[Tensor]:
        """Returns each level's features, `(P, B, c)`, coarse to fine, in nested order. `maps` are fine to coarse."""
        out = []
        for level, (m, grid) in enumerate(zip(reversed(maps), self.grids, strict=True)):
            if tuple(m.shape[2:]) != grid:
                m = F.interpolate(m, grid, mode="nearest")
            ys, xs = self._steps(level)
            steps = len(ys)
            m = m.reshape(*m.shape[:2], *ys, *xs)
            order = [2 + i + steps * axis for i in range(steps) for axis in (0, 1)]
            out.append(m.permute(*order, 0, 1).reshape(-1, m.shape[0], m.shape[1]))
        return out

    def plane(self, values: Tensor) -> Tensor:
        """Rearranges values of the finest level from nested order, `(P, B)`, to the grid, `(B, h, w)`."""
        ys, xs = self._steps(len(self.grids) - 1)
        steps = len(ys)
        values = values.reshape(*[n for pair in zip(ys, xs, strict=True) for n in pair], -1)
        order = [2 * i + axis for axis in (0, 1) for i in range(steps)]
        return values.permute(2 * steps, *order).reshape(-1, *self.grids[-1])

    def _steps(self, level: int) -> tuple[list[int], list[int]]:
        """Returns the factors by which rows and columns multiply from level to level, down to `level`."""
        grids = self.grids[: level + 1]
        first, pairs = grids[0], list(zip(grids, grids[1:], strict=False))
        ys, xs = ([first[axis]] + [b[axis] // a[axis] for a, b in pairs] for axis in (0, 1))
        return ys, xs


def spread(coarse: Tensor, positions: int) -> Tensor:
    """Repeats the values of each coarse cell for its children: `(P, ...)` to `(positions, ...)`."""
    return coarse.repeat_interleave(positions // len(coarse), 0) if len(coarse) != positions else coarse
