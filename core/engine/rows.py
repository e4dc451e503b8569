"""Array-like images, maps or masks, on disk or in several files, whose rows are read on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np

AT_ONCE = 2**25  # bytes of non-adjacent rows that are copied into memory; more are read on demand


class Rows(Protocol):
    """An array, or an object whose rows can be read with a slice or an array of indices."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> np.ndarray: ...


class _Read:
    """Base class of rows that are read on demand; `np.asarray` reads all of them."""

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
    """Selection of rows, given by the indices `index` `(n,)`, which are read on demand."""

    def __init__(self, rows: Rows, index: np.ndarray) -> None:
        self._rows, self._index = rows, index
        self.shape = (len(index), *rows.shape[1:])
        self.dtype = np.dtype(getattr(rows, "dtype", np.float32))

    def __getitem__(self, index: Any, /) -> np.ndarray:
        return np.asarray(self._rows[self._index[index]])


class Joined(_Read):
    """Concatenation of arrays `(n_i, ...)` of one type, read with an index, a slice or an array of indices.

    Reading several rows returns a copy; reading a single row returns a view.
    """

    def __init__(self, parts: Sequence[np.ndarray]) -> None:
        self.parts = tuple(parts)
        self.ends = np.cumsum([len(rows) for rows in self.parts])
        self.shape = (int(self.ends[-1]), *self.parts[0].shape[1:])
        self.dtype = self.parts[0].dtype

    def __getitem__(self, index: Any, /) -> np.ndarray:
        rows = np.arange(len(self))[index]  # also converts negative indices and masks to row numbers; raises IndexError
        array_numbers = np.searchsorted(self.ends, rows, side="right")
        if rows.ndim == 0:
            return np.asarray(self.parts[array_numbers][rows - self._start(int(array_numbers))])
        out = np.empty((*rows.shape, *self.shape[1:]), self.dtype)
        for number in np.unique(array_numbers):
            out[array_numbers == number] = self.parts[number][rows[array_numbers == number] - self._start(number)]
        return out

    def within(self, start: int, stop: int) -> np.ndarray | None:
        """Returns the rows from `start` up to but excluding `stop` as a view, or None if they are in several arrays."""
        number = int(np.searchsorted(self.ends, start, side="right"))
        first = self._start(number)
        return self.parts[number][start - first : stop - first] if stop <= self.ends[number] else None

    def _start(self, number: int) -> int:
        return int(self.ends[number - 1]) if number else 0


class Resized(_Read):
    """Images `(N, S, S, 3)` or regions `(N, S, S)`, uint8, that are shrunk when they are read; see `resized`."""

    def __init__(self, rows: Rows, side: int) -> None:
        self._rows, self._side = rows, side
        self.shape = (len(rows), side, side, *rows.shape[3:])
        self.dtype = np.dtype(np.uint8)

    def __getitem__(self, index: Any, /) -> np.ndarray:
        import cv2  # imported here because other rows do not need OpenCV

        rows = np.asarray(self._rows[index])
        several = rows.ndim == len(self.shape)
        out = np.empty((len(rows), *self.shape[1:]) if several else self.shape[1:], np.uint8)
        for source, target in zip(rows, out, strict=True) if several else [(rows, out)]:
            cv2.resize(np.ascontiguousarray(source), target.shape[1::-1], target, interpolation=cv2.INTER_AREA)
        return out


def resized(rows: np.ndarray, side: int) -> np.ndarray:
    """Shrinks uint8 images `(N, S, S, 3)` or regions `(N, S, S)` to side length `side`, unless they are smaller.

    Each new pixel is the mean of the pixels that it covers. Rows are shrunk lazily, when the result is indexed.
    """
    return rows if rows.shape[1] <= side else cast(np.ndarray, Resized(rows, side))


def rows_of(array: Rows, index: np.ndarray) -> np.ndarray:
    """Returns `array[index]` for an array of integers `(n,)` without a large copy in memory.

    Consecutive rows of one file are returned as a view. Other rows are copied if they take at most AT_ONCE bytes, and
    otherwise returned as `Some`, which reads them on demand.
    """
    if len(index) and index[-1] - index[0] + 1 == len(index) and (np.diff(index) == 1).all():
        first, stop = int(index[0]), int(index[-1]) + 1
        view = array.within(first, stop) if isinstance(array, Joined) else array[first:stop]
        if view is not None:
            return view
    row = np.dtype(getattr(array, "dtype", np.float32)).itemsize * int(np.prod(array.shape[1:]))
    if len(index) * row <= AT_ONCE:
        return array[index]
    return cast(np.ndarray, Some(array, index))
