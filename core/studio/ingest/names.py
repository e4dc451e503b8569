"""Finds the images that masks, tables or other programs' annotations name: by path, then by name alone.

Names need not match letter by letter: accents may be one character or two, case may differ, a mask may add a common
ending (`_mask`, `_seg_1`) and another file suffix. All equally close matches are returned; callers report several as
ambiguous.
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
)  # others belong to the name, as in a UID
_WORD = "masks?|segm?|segmentations?|labels?|gt|ground[ _-]?truth|annotations?|bm"
_ENDING = re.compile(rf"(.+?)[ _.-]+(?:{_WORD})(?:[ _.-]*\(?\d+\)?)?", re.I | re.S)
_BEGINNING = re.compile(rf"(?:{_WORD})[ _.-]+(.+)", re.I | re.S)
_OF_IMAGE = re.compile(r"(.+?)[ _.-]+(?:image|img|original|orig)", re.I | re.S)


def folded(text: str) -> str:
    """Returns a name normalised for comparison: composed accents, lower case, `/` between folders."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text.replace("\\", "/")).casefold())


def stem(name: str) -> str:
    """Returns a name without the suffix of an image or annotation file; `MR.1.3.12` keeps all its dots."""
    bare, dot, suffix = name.rpartition(".")
    return bare if bare and f"{dot}{suffix}".lower() in SUFFIXES else name


def without_ending(name: str) -> str | None:
    """Returns the stem of the image whose mask has this stem (`a_seg_1` -> `a`); None if it has no mask ending."""
    match = _ENDING.fullmatch(name) or _BEGINNING.fullmatch(name)
    return match[1] if match else None


class Register(Generic[T]):
    """Finds items by the paths of their files. One item may be registered under several paths."""

    def __init__(self, named: Iterable[tuple[str, T]]) -> None:
        self._by_name: dict[tuple[bool, str], dict[tuple[tuple[str, ...], T], None]] = {}  # whether folded, name
        for path, thing in named:
            *folders, name = _parts(path)
            for key in (name, bare) if (bare := stem(name)) != name else (name,):
                short = _OF_IMAGE.fullmatch(key)
                for form in {(False, key), (True, folded(key)), *([(True, folded(short[1]))] if short else ())}:
                    self._by_name.setdefault(form, {})[tuple(map(folded, folders)), thing] = None

    def find(self, path: str, nested: bool = False) -> list[T]:
        """Returns the items that a path refers to: none if it is unknown, several if it is ambiguous.

        nested: a folder may be named like the image whose masks it holds (`KIND/001/000.png` for `KIND/001.png`).
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
        """Yields the items with this name, the closest match first."""
        forms = [name, stem(name)]
        while (short := without_ending(forms[-1])) is not None:
            forms.append(short)
        for form in [*((False, form) for form in forms), *((True, folded(form)) for form in forms)]:
            if form in self._by_name:
                yield list(self._by_name[form])


def _parts(path: str) -> list[str]:
    return [name for name in path.replace("\\", "/").split("/") if name not in ("", ".")] or [path]


def _shared(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """Counts the last folders that two paths share."""
    pairs = zip(reversed(a), reversed(b), strict=False)
    return next((n for n, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))
