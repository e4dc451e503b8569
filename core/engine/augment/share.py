"""Which part of a joint batch one of several processes works on.

Random numbers are drawn for the joint batch on each process and each keeps its own rows, so that what an image becomes
does not depend on how many processes there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

Rows = TypeVar("Rows", bound=Tensor | None)


@dataclass(frozen=True)
class Share:
    """Rows start..stop of a joint batch of `total`."""

    start: int
    stop: int
    total: int

    @classmethod
    def of(cls, total: int, rank: int, world: int) -> Share:
        """The part of process `rank` of `world`; parts differ by one row at most."""
        return cls(total * rank // world, total * (rank + 1) // world, total)

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop)

    def times(self, count: int) -> Share:
        """The same part where each row has become `count` rows, one after another."""
        return Share(self.start * count, self.stop * count, self.total * count)


Part = Share | None  # None: the whole batch


def own(x: Rows, share: Share | None) -> Rows:
    """The rows of x (B, ...) that are of the share; all where there is none."""
    return x if share is None or x is None else x[share.rows]  # type: ignore[return-value]
