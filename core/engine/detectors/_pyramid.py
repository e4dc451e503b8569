"""The nested grids of a feature pyramid, and feature maps as lists of their cells."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Pyramid:
    """Grids (h, w) from coarse to fine, each dividing the next, and the channels of each."""

    grids: tuple[tuple[int, int], ...]
    channels: tuple[int, ...]

    @classmethod
    def of(cls, maps: list[Tensor]) -> Pyramid:
        """maps: (B, c, h, w) from fine to coarse. Grids that do not nest are brought to the finest one."""
        grids = [(m.shape[2], m.shape[3]) for m in reversed(maps)]
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
        ys, xs = ([first[axis]] + [b[axis] // a[axis] for a, b in pairs] for axis in (0, 1))
        return ys, xs


def spread(coarse: Tensor, positions: int) -> Tensor:
    """(P, ...) -> (positions, ...): each cell's values repeated for its children."""
    return coarse.repeat_interleave(positions // len(coarse), 0) if len(coarse) != positions else coarse
