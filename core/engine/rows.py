"""Images, maps or masks that need not lie in memory together."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Rows(Protocol):
    """An array, or what stands for one: a slice or an array of indices gives these rows."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> np.ndarray: ...


class Some:
    """Rows `index` (n,) of `rows`, read when they are asked for."""

    def __init__(self, rows: np.ndarray, index: np.ndarray) -> None:
        self._rows, self._index = rows, index
        self.shape: tuple[int, ...] = (len(index), *rows.shape[1:])

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, index: Any, /) -> np.ndarray:
        return np.asarray(self._rows[self._index[index]])
