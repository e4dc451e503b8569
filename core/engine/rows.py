"""Images, maps or masks that need not lie in memory together, nor in one file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np


class Rows(Protocol):
    """An array, or what stands for one: a slice or an array of indices gives these rows."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> np.ndarray: ...


class _Read:
    """Rows that are read when they are asked for; `np.asarray` reads all of them."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any, /) -> np.ndarray:
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:] if dtype is None else self[:].astype(dtype)


class Some(_Read):
    """Rows `index` (n,) of `rows`."""

    def __init__(self, rows: Rows, index: np.ndarray) -> None:
        self._rows, self._index = rows, index
        self.shape = (len(index), *rows.shape[1:])
        self.dtype = np.dtype(getattr(rows, "dtype", np.float32))

    def __getitem__(self, index: Any, /) -> np.ndarray:
        return np.asarray(self._rows[self._index[index]])


class Joined(_Read):
    """Arrays (n_i, ...) of one type, read as one of (n_1 + n_2 + ..., ...): by a number, a slice, or an array of them.

    What is read is a copy, but for a single row.
    """

    def __init__(self, parts: Sequence[np.ndarray]) -> None:
        self.parts = tuple(parts)
        self.ends = np.cumsum([len(part) for part in self.parts])
        self.shape = (int(self.ends[-1]), *self.parts[0].shape[1:])
        self.dtype = self.parts[0].dtype

    def __getitem__(self, index: Any, /) -> np.ndarray:
        rows = np.arange(len(self))[index]  # also turns negative numbers and masks into row numbers; raises IndexError
        which = np.searchsorted(self.ends, rows, side="right")
        if rows.ndim == 0:
            return np.asarray(self.parts[which][rows - self._start(int(which))])
        found = np.empty((*rows.shape, *self.shape[1:]), self.dtype)
        for number in np.unique(which):
            found[which == number] = self.parts[number][rows[which == number] - self._start(number)]
        return found

    def within(self, start: int, stop: int) -> np.ndarray | None:
        """Rows start..stop as a view of the part that holds them all, or None if no single part does."""
        number = int(np.searchsorted(self.ends, start, side="right"))
        first = self._start(number)
        return self.parts[number][start - first : stop - first] if stop <= self.ends[number] else None

    def _start(self, number: int) -> int:
        return int(self.ends[number - 1]) if number else 0
