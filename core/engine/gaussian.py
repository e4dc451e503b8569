"""One multivariate normal distribution per position of a feature pyramid, without a loop over positions.

PaDiM joins feature maps of several resolutions by nearest up-sampling (Sec. Anomaly Detection and Segmentation). All
cells below one coarse cell then share its features, so most of each covariance is the same matrix again. We keep each
shared block once. With the levels ordered from coarse to fine and y the whitened features, the Cholesky factors give

    d^2 = sum over levels of |y_l|^2,    y_l = G_l [y_coarser ; x_l - mu_l]

which equals (x - mu)^T Sigma^-1 (x - mu) of the joint vector exactly, in about a fifth of the memory and work.

Positions are kept in nested order: the children of a cell lie side by side, so that sharing is a reshape.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

BASE = 14  # below this size unrolled columns beat batched matrix products; measured on two CPU cores
CHUNK = 512  # coarse enough to feed the cores, small enough to stay in their caches


@dataclass(frozen=True)
class Pyramid:
    """Grids (h, w) from coarse to fine, each dividing the next, and the channels of each."""

    grids: tuple[tuple[int, int], ...]
    channels: tuple[int, ...]

    @classmethod
    def of(cls, maps: list[Tensor]) -> Pyramid:
        """maps: (B, c, h, w) from fine to coarse. Grids that do not nest are brought to the finest one."""
        grids = [tuple(m.shape[2:]) for m in reversed(maps)]
        nested = all(b[0] % a[0] == 0 and b[1] % a[1] == 0 for a, b in zip(grids, grids[1:], strict=False))
        if not nested:
            grids = [grids[-1]] * len(grids)
        return cls(tuple(grids), tuple(m.shape[1] for m in reversed(maps)))

    def cells(self, maps: list[Tensor]) -> list[Tensor]:
        """maps (B, c, h, w) from fine to coarse -> per level, coarse to fine, (P, B, c) in nested order."""
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
        """(P, B) of the finest level, nested order -> (B, h, w)."""
        ys, xs = self._steps(len(self.grids) - 1)
        steps = len(ys)
        values = values.reshape(*[n for pair in zip(ys, xs, strict=True) for n in pair], -1)
        order = [2 * i + axis for axis in (0, 1) for i in range(steps)]
        return values.permute(2 * steps, *order).reshape(-1, *self.grids[-1])

    def _steps(self, level: int) -> tuple[list[int], list[int]]:
        """How many parts each step from the coarsest grid down to `level` cuts an edge into: rows, columns."""
        grids = self.grids[: level + 1]
        first, pairs = grids[0], list(zip(grids, grids[1:], strict=False))
        return tuple([first[axis]] + [b[axis] // a[axis] for a, b in pairs] for axis in (0, 1))


def spread(coarse: Tensor, positions: int) -> Tensor:
    """(P, ...) -> (positions, ...): each cell's values repeated for its children."""
    return coarse.repeat_interleave(positions // len(coarse), 0) if len(coarse) != positions else coarse


def families(x: Tensor, parents: int) -> Tensor:
    """(P, n, m) -> (parents, P / parents * n, m): the rows of each parent's children as one matrix."""
    return x.reshape(parents, -1, x.shape[2])


class Moments:
    """Running mean and scatter of every position; its size does not depend on how many images it has seen.

    Each batch is centred on its own mean and merged after Chan, Golub and LeVeque (1983): no difference of large sums
    is ever formed, so float32 scatters agree with float64 ones however far from zero the features lie. Means: float64.
    """

    def __init__(self) -> None:
        self.pyramid: Pyramid | None = None
        self.count = 0
        self.means: list[Tensor] = []  # (P_l, c_l)
        self.scatters: list[Tensor] = []  # (P_l, c_l, C_l): own channels against coarser and own ones

    def add(self, maps: list[Tensor]) -> None:
        """maps: float32 (B, c, h, w), from fine to coarse."""
        if self.pyramid is None:
            self.pyramid = Pyramid.of(maps)
        joined: Tensor | None = None
        b = len(maps[0])
        for level, x in enumerate(self.pyramid.cells(maps)):
            if len(self.means) == level:
                wide = sum(self.pyramid.channels[: level + 1])
                self.means.append(x.new_zeros(len(x), x.shape[2], dtype=torch.float64))
                self.scatters.append(x.new_zeros(len(x), x.shape[2], wide))
            mean = x.mean(1, dtype=torch.float64)
            step = mean - self.means[level]
            weight = (self.count * b / (self.count + b)) ** 0.5
            # One more row carries the shift between the batch's mean and the running one.
            rows = torch.cat([x - mean[:, None].to(x.dtype), (weight * step)[:, None].to(x.dtype)], 1)
            own = rows.shape[2]
            scatter = self.scatters[level]
            scatter[:, :, -own:].baddbmm_(rows.transpose(1, 2), rows)
            if joined is not None:
                cross = scatter[:, :, :-own].view(len(joined), -1, joined.shape[2])
                cross.baddbmm_(families(rows.transpose(1, 2), len(joined)), joined)
            if level + 1 < len(self.pyramid.grids):
                joined = rows if joined is None else torch.cat([spread(joined, len(rows)), rows], 2)
            self.means[level] += step * (b / (self.count + b))
        self.count += b

    def finish(self, epsilon: float = 0.01) -> Gaussian:
        """Covariance (over count - 1) + epsilon I, factorised in the scatters' own memory. Needs two images or more."""
        if self.count < 2:
            raise ValueError(f"a covariance needs at least 2 normal images; there are {self.count}")
        factors: list[Tensor] = []
        for scatter in self.scatters:
            scatter /= self.count - 1
            own = scatter.shape[1]
            scatter[:, :, -own:].diagonal(dim1=1, dim2=2).add_(epsilon)
            for chunk in _chunks(len(scatter), len(factors[0]) if factors else 1):
                _factorise(scatter[chunk], [f[_parents(chunk, len(scatter), len(f))] for f in factors])
            factors.append(scatter)
        self.scatters = []
        return Gaussian(self.pyramid, [m.float() for m in self.means], factors)


@dataclass
class Gaussian:
    """means (P_l, c_l) and factors G_l (P_l, c_l, C_l), levels from coarse to fine."""

    pyramid: Pyramid
    means: list[Tensor]
    factors: list[Tensor]

    def distance(self, maps: list[Tensor]) -> Tensor:
        """maps (B, c, h, w) from fine to coarse -> Mahalanobis distance (B, h, w) on the finest grid (s_PaDiM)."""
        squared = white = None
        levels = zip(self.pyramid.cells(maps), self.means, self.factors, strict=True)
        for level, (x, mean, factor) in enumerate(levels):
            own = x.shape[2]
            y = torch.bmm(factor[:, :, -own:], (x - mean[:, None]).transpose(1, 2))  # (P, c, B)
            if white is not None:
                y += torch.bmm(families(factor[:, :, :-own], len(white)), white).reshape(y.shape)
            part = y.square().sum(1)
            squared = part if squared is None else spread(squared, len(part)) + part
            if level + 1 < len(self.pyramid.grids):
                white = y if white is None else torch.cat([spread(white, len(y)), y], 1)
        return self.pyramid.plane(squared.clamp_(min=0).sqrt_())


def _chunks(positions: int, multiple: int) -> list[slice]:
    """Slices of about CHUNK positions whose ends fall between families of cells."""
    family = max(positions // multiple, 1)
    size = max(CHUNK // family, 1) * family
    return [slice(start, min(start + size, positions)) for start in range(0, positions, size)]


def _parents(chunk: slice, positions: int, coarse: int) -> slice:
    family = positions // coarse
    return slice(chunk.start // family, chunk.stop // family)


def _factorise(sigma: Tensor, coarser: list[Tensor]) -> None:
    """sigma (P, c, C), own rows of the covariance -> G in place. coarser: G of the parents, each (P_i, c_i, C_i)."""
    own = sigma.shape[1]
    lower, at = sigma[:, :, :-own], 0
    for g in coarser:
        # Forward substitution, block by block, for all children of a parent in one product.
        cross = lower[:, :, at : at + g.shape[1]]
        known = torch.cat([lower[:, :, :at], cross], 2).reshape(len(g), -1, g.shape[2])
        cross.copy_(torch.bmm(known, g.transpose(1, 2)).reshape(cross.shape))
        at += g.shape[1]
    rest = sigma[:, :, -own:]
    if at:
        rest.baddbmm_(lower, lower.transpose(1, 2), alpha=-1)
    white = inverse_cholesky(rest)
    if at:
        lower.copy_(torch.bmm(white, lower).neg_())
    rest.copy_(white)


def inverse_cholesky(a: Tensor) -> Tensor:
    """(P, n, n) symmetric positive definite -> L^-1 with a = L L^T, by halves, so that most of the work is products.

    Positions at which float32 is not enough are done again in float64; ValueError if that fails too.
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
    left = torch.bmm(a[:, h:, :h], first.transpose(1, 2))
    _by_halves(torch.baddbmm(a[:, h:, h:], left, left.transpose(1, 2), alpha=-1), second)
    out[:, h:, :h] = torch.bmm(second, torch.bmm(left, first)).neg_()


def _by_columns(a: Tensor) -> Tensor:
    """The same for small n: elimination on [a | I], positions innermost so that each step is one long vector."""
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
