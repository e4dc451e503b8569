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

from core.engine import processes
from core.engine.detectors._cholesky import inverse_cholesky
from core.engine.detectors._pyramid import Pyramid, spread

CHUNK = 512  # coarse enough to feed the cores, small enough to stay in their caches


@dataclass
class Level:
    """One level's values. mean (P, c); own (P, c, c); cross (P, c, C): own channels against all coarser ones."""

    mean: Tensor
    own: Tensor
    cross: Tensor

    @classmethod
    def empty(cls, like: Tensor, coarser: int) -> Level:
        """like: (P, B, c). Means are float64 zeros; the rest is as `like` and has still to be written."""
        p, _, c = like.shape
        return cls(like.new_zeros(p, c, dtype=torch.float64), like.new_empty(p, c, c), like.new_empty(p, c, coarser))

    def scatter(self, rows: Tensor, coarser: Tensor | None, kept: bool) -> None:
        """Add the products of centred rows (P, B, c) with themselves and with all coarser levels' rows (Q, B, C).

        kept: whether there is a sum already.
        """
        turned = rows.transpose(1, 2)
        self.own.baddbmm_(turned, rows, beta=int(kept))
        if coarser is not None:
            family = turned.reshape(len(coarser), -1, rows.shape[1])
            self.families(len(coarser)).baddbmm_(family, coarser, beta=int(kept))

    def families(self, parents: int) -> Tensor:
        """`cross` with the rows of each parent's children as one matrix: a view (parents, P / parents * c, C)."""
        return self.cross.view(parents, -1, self.cross.shape[2])


class Moments:
    """Running mean and scatter of every position, of a size that does not depend on how many images it has seen.

    Each batch is centred on its own mean and merged after Chan, Golub and LeVeque (1983): no difference of large sums
    is ever formed, so float32 scatters agree with float64 ones however far from zero the features lie. Means: float64.
    """

    def __init__(self) -> None:
        self.pyramid: Pyramid | None = None
        self.count = 0
        self.levels: list[Level] = []

    def add(self, maps: list[Tensor]) -> None:
        """maps: float32 (B, c, h, w), from fine to coarse."""
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
            # One more row carries the shift between the batch's mean and the running one.
            rows = torch.cat([x, (weight * step)[:, None].to(x.dtype)], 1)
            rows[:, :b] -= mean[:, None].to(x.dtype)
            level.scatter(rows, joined, kept=self.count > 0)
            if depth + 1 < len(self.pyramid.grids):
                joined = _below(joined, rows)
            level.mean += step * (b / (self.count + b))
        self.count += b

    def join(self) -> None:
        """Become the moments of all processes' images, each of which has added its own, at least one."""
        joined, every = None, int(processes.total(torch.tensor(self.count, device=self.levels[0].mean.device)))
        for level in self.levels:
            mean = processes.total(level.mean * self.count) / every
            rows = (self.count**0.5 * (level.mean - mean))[:, None].to(level.own.dtype)  # (P, 1, c)
            level.scatter(rows, joined, kept=True)
            joined = _below(joined, rows)
            level.mean, level.own, level.cross = mean, processes.total(level.own), processes.total(level.cross)
        self.count = every

    def finish(self, epsilon: float = 0.01) -> Gaussian:
        """Covariance (over count - 1) + epsilon I, factorised in the scatters' own memory. Needs two images or more."""
        if self.count < 2 or self.pyramid is None:
            raise ValueError(f"a covariance needs at least 2 normal images; there are {self.count}")
        done: list[Level] = []
        for level in self.levels:
            positions = len(level.own)
            for start, stop in _chunks(positions, len(done[0].own) if done else positions):
                part = _part(level, start, stop, positions)
                for scatter in (part.own, part.cross):
                    scatter /= self.count - 1
                part.own.diagonal(dim1=1, dim2=2).add_(epsilon)
                _factorise(part, [_part(d, start, stop, positions) for d in done])
            level.mean = level.mean.float()
            done.append(level)
        self.levels = []
        return Gaussian(self.pyramid, done)


@dataclass
class Gaussian:
    """Levels from coarse to fine whose `cross` and `own` are the two parts of G_l, the factor of the text above."""

    pyramid: Pyramid
    levels: list[Level]

    def distance(self, maps: list[Tensor]) -> Tensor:
        """maps (B, c, h, w) from fine to coarse -> Mahalanobis distance (B, h, w) on the finest grid (Eq. 13)."""
        squared: Tensor | None = None
        white: Tensor | None = None
        for depth, (x, level) in enumerate(zip(self.pyramid.cells(maps), self.levels, strict=True)):
            y = torch.bmm(level.own, (x - level.mean[:, None]).transpose(1, 2))  # (P, c, B)
            if white is not None:
                y += torch.bmm(level.families(len(white)), white).view(y.shape)
            part = y.square().sum(1)
            squared = part if squared is None else spread(squared, len(part)) + part
            if depth + 1 < len(self.levels):
                white = y if white is None else torch.cat([spread(white, len(y)), y], 1)
        assert squared is not None  # a pyramid has one level or more
        return self.pyramid.plane(squared.sqrt_())


def _below(coarser: Tensor | None, rows: Tensor) -> Tensor:
    """The rows of all coarser levels (Q, B, C), each repeated for its children, and of this one (P, B, c)."""
    return rows if coarser is None else torch.cat([spread(coarser, len(rows)), rows], 2)


def _chunks(positions: int, families: int) -> list[tuple[int, int]]:
    """Ranges of about CHUNK positions whose ends fall between families of cells."""
    family = positions // families
    size = max(CHUNK // family, 1) * family
    return [(start, min(start + size, positions)) for start in range(0, positions, size)]


def _part(level: Level, start: int, stop: int, positions: int) -> Level:
    """The cells of `level` that lie over positions start..stop of a level that has `positions`."""
    family = positions // len(level.own)
    cut = slice(start // family, stop // family)
    return Level(level.mean[cut], level.own[cut], level.cross[cut])


def _factorise(level: Level, coarser: list[Level]) -> None:
    """The covariance's rows of this level become G in place; `coarser` holds the parents' G already."""
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
