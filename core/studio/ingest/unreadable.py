"""Defines the error `Unreadable` for files that cannot be imported, and functions that raise this error."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MEGAPIXELS = 150  # a full endoscopy frame has 2, a fundus photograph 12, a mammogram 20


class Unreadable(ValueError):
    """Raised if a file cannot be imported. The import report shows the message as the reason."""


def limit(width: int, height: int) -> None:
    """Raises Unreadable if a picture has no pixels, or more than MEGAPIXELS megapixels."""
    if width < 1 or height < 1:
        raise Unreadable(f"it has no pixels ({width} x {height})")
    if width * height > MEGAPIXELS * 1_000_000:
        raise Unreadable(f"its header says {width} x {height} pixels; at most {MEGAPIXELS} megapixels are decoded")


def refusing(read: Callable[P, T]) -> Callable[P, T]:
    """Decorator for functions that read files. Errors of decoders become Unreadable; system errors remain OSErrors."""

    @functools.wraps(read)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except Unreadable:
            raise
        except MemoryError:
            raise Unreadable("not enough memory to decode it") from None
        except Exception as error:  # decoders raise errors of any kind
            if isinstance(error, OSError) and error.errno:
                raise
            logging.getLogger(__name__).debug("a decoder failed", exc_info=error)  # the error is for developers
            raise Unreadable("damaged or cut short") from None

    return checked
