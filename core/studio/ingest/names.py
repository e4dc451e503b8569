"""Finds the images to which masks, tables or annotations refer, by path or by file name alone.

Names need not match exactly: the encoding of accents, letter case and the suffix may differ, and the name of a mask may
have a common ending (`_mask`, `_seg_1`). If several images match equally well, all of them are returned.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from core.studio.ingest import decode, video

T = TypeVar("T", bound=Hashable)
SUFFIXES = (
    decode.SUFFIXES | video.SUFFIXES | {".txt", ".json", ".xml", ".npy"}
)  # any other ending belongs to the name, as in a UID
_WORD = "masks?|segm?|segmentations?|labels?|gt|ground[ _-]?truth|annotations?|bm"
_ENDING = re.compile(rf"(.+?)[ _.-]+(?:{_WORD})(?:[ _.-]*\(?\d+\)?)?", re.I | re.S)
_BEGINNING = re.compile(rf"(?:{_WORD})[ _.-]+(.+)", re.I | re.S)
_OF_IMAGE = re.compile(r"(.+?)[ _.-]+(?:image|img|original|orig)", re.I | re.S)


def folded(text: str) -> str:
    """Normalises a name for comparison: composes accents, converts to lower case, and separates folders by `/`."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text.replace("\\", "/")).casefold())


def stem(name: str) -> str:
    """Returns a name without the suffix of an image or annotation file; other dots, as in `MR.1.3.12`, remain."""
    bare, dot, suffix = name.rpartition(".")
    return bare if bare and f"{dot}{suffix}".lower() in SUFFIXES else name


def without_ending(name: str) -> str | None:
    """Returns the stem of the image to which a mask belongs (`a` for `a_seg_1`), or None if `name` is no mask name."""
    match = _ENDING.fullmatch(name) or _BEGINNING.fullmatch(name)
    return match[1] if match else None


class PathIndex(Generic[T]):
    """Finds items by the paths of their files. An item may be registered under several paths."""

    def __init__(self, named: Iterable[tuple[str, T]]) -> None:
        self._by_name: dict[tuple[bool, str], dict[tuple[tuple[str, ...], T], None]] = {}  # whether folded, name
        for path, thing in named:
            *folders, name = _parts(path)
            for key in (name, bare) if (bare := stem(name)) != name else (name,):
                short = _OF_IMAGE.fullmatch(key)
                for form in {(False, key), (True, folded(key)), *([(True, folded(short[1]))] if short else ())}:
                    self._by_name.setdefault(form, {})[tuple(map(folded, folders)), thing] = None

    def find(self, path: str, nested: bool = False) -> list[T]:
        """Returns the items to which a path refers: none if the path is unknown, several if it is ambiguous.

        If `nested` is True, the folder that contains a mask may have the name of the image, so that `KIND/001/000.png`
        refers to `KIND/001.png`.
        """
        *folders, name = _parts(path)
        above = tuple(map(folded, folders))
        candidates = [(above, name)] + ([(above[:-1], folders[-1])] if nested and folders else [])
        for candidate in candidates:  # all folders match
            for matches in self._called(candidate[1]):
                if same := [thing for parents, thing in matches if parents == candidate[0]]:
                    return list(dict.fromkeys(same))
        for candidate in candidates:  # as many of the last folders match as possible
            for matches in self._called(candidate[1]):
                shared = [_shared(parents, candidate[0]) for parents, _ in matches]
                best = [thing for (_, thing), n in zip(matches, shared, strict=True) if n == max(shared)]
                return list(dict.fromkeys(best))
        return []

    def _called(self, name: str) -> Iterator[list[tuple[tuple[str, ...], T]]]:
        """Yields lists of (folders, item) pairs with a name, for the closest form of the name first."""
        forms = [name, stem(name)]
        while (short := without_ending(forms[-1])) is not None:
            forms.append(short)
        for form in [*((False, form) for form in forms), *((True, folded(form)) for form in forms)]:
            if form in self._by_name:
                yield list(self._by_name[form])


def _parts(path: str) -> list[str]:
    return [name for name in path.replace("\\", "/").split("/") if name not in ("", ".")] or [path]


def _shared(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """Returns the number of last folders that two paths share."""
    pairs = zip(reversed(a), reversed(b), strict=False)
    return next((n for n, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))
