"""From files to cases: each file is read once; a file that cannot be imported is listed with its reason.

No row of the database is written here. A file of several frames (DICOM, TIFF, GIF, a recording) gives one `Found` for
each of them; a DICOM file that is one slice of a volume knows its place there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.studio.ingest import burned_in, dicom, video, volumes
from core.studio.ingest.cache import Progress
from core.studio.ingest.decode import Probe, probe, read_image
from core.studio.ingest.duplicates import file_sha256, near_pairs, perceptual_hash, thumbnail
from core.studio.ingest.layouts import Entry
from core.studio.ingest.masks import encode_mask, read_mask
from core.studio.ingest.unreadable import Unreadable
from core.studio.ingest.video import Sampling

HOLDOUT_FRACTION = 0.25
HOLDOUT_LEAST = 20  # when there are HOLDOUT_FROM normals or more
HOLDOUT_FROM = 60


@dataclass
class Found:
    """One frame that can be read, with what the case's row needs."""

    entry: Entry
    frame: int
    frames: int
    row: dict
    thumb: object
    mask: bytes | None = None
    mask_problem: str | None = None


def read_all(
    entries: list[Entry], on_progress: Progress | None, sampling: Sampling | None = None
) -> tuple[list[Found], list[dict]]:
    """All frames of all files, and [{"path", "reason"}] of what was left out. `sampling`: of recordings, which.

    Slices of one volume follow each other in their order, whatever their files are called.
    """
    found, rejected, seen = [], [], set()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda entry: _read(entry, sampling or Sampling()), entries)
        for done, (entry, result) in enumerate(zip(entries, results, strict=True), start=1):
            if isinstance(result, str):
                rejected.append({"path": printable(entry.path), "reason": result})
            elif entry.path in seen:
                rejected.append({"path": printable(entry.path), "reason": "it is named twice"})
            else:
                found += result
                problem = result[0].mask_problem
                if problem and entry.mask is not None:
                    rejected.append({"path": printable(entry.mask), "reason": problem})
            seen.add(entry.path)
            if on_progress:
                on_progress(done, len(entries))
    return volumes.in_order(found), rejected


def _read(entry: Entry, sampling: Sampling) -> list[Found] | str:
    """All frames of one file, or the reason why it is left out. Nothing a file holds may end the import."""
    if entry.problem:
        return entry.problem
    try:
        str(entry.path).encode("utf-8")
    except UnicodeEncodeError:
        return "its name is not valid UTF-8; rename the file"
    try:
        head = probe(entry.path)
        digest = file_sha256(entry.path)
        header = dicom.header(entry.path) if head.format == "DICOM" else None
        declared = header is not None and dicom.declares_text(header)
        piece = None if header is None else volumes.slice_of(header)
        found = []
        for frame, image in _frames(entry.path, head, sampling):
            thumb = thumbnail(image)
            row = {
                "width": image.shape[1],
                "height": image.shape[0],
                "bits": head.bits,
                "modality": head.modality,
                "sha256": digest,
                "phash": perceptual_hash(thumb),
                "burned_in": int(declared or burned_in.likely(image)),
                **(piece.to_row() if piece else {}),
            }
            found.append(Found(entry, frame, head.frames, row, thumb))
    except Unreadable as error:
        return str(error)
    except MemoryError:
        return "not enough memory to decode it"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except Exception as error:  # a decoder's own fault must not lose the other files
        return f"cannot be decoded: {type(error).__name__}: {error}"
    if entry.mask is not None:
        try:
            if head.frames > 1:
                raise Unreadable("a mask for a file of several frames; the frames were taken without it")
            found[0].mask = encode_mask(read_mask(entry.mask, (found[0].row["width"], found[0].row["height"])))
        except (Unreadable, OSError) as error:
            found[0].mask_problem = str(error)
    return found


def _frames(path: Path, head: Probe, sampling: Sampling) -> Iterator[tuple[int, np.ndarray]]:
    """(number, image uint8 (H, W, 3)) of each frame that becomes a case."""
    if head.format != video.FORMAT:
        for number in range(head.frames):
            yield number, read_image(path, number)
        return
    numbers = sampling.numbers(head.frames, head.rate or 0.0)
    probes, digests = set(video.probes(numbers)), {}
    for number, image in zip(numbers, video.frames(path, numbers), strict=False):
        if number in probes:
            digests[number] = video.digest(image)
        yield number, image
    if not digests:
        raise Unreadable("it has no frame that can be decoded")
    if not video.faithful(path, digests):
        raise Unreadable(
            "its frames cannot be found again by their number (its frame rate varies, or its index is damaged): "
            "convert it to a constant frame rate and import that"
        )


def hold_out(found: list[Found]) -> None:
    """Hold out a part of the training normals, chosen by content, so the same files give the same part everywhere.

    Frames of one file and slices of one volume stay on one side, but for a volume that is all there is: without
    held-out slices nothing could be scored. Nothing is chosen when the layout already names a held-out part.
    """
    train = [f for f in found if f.entry.split == "train"]
    if not train or any(f.entry.split == "holdout" for f in found):
        return
    whole: dict[str, str] = {}  # a volume goes by one of its slices
    for f in train:
        series, digest = f.row.get("series"), f.row["sha256"]
        if series:
            whole[series] = min(whole.get(series, digest), digest)
    if len(whole) == 1 and all(f.row.get("series") for f in train):
        whole = {}

    def unit(f: Found) -> str:
        series, digest = f.row.get("series"), f.row["sha256"]
        return whole.get(series, digest) if series else digest

    digests = sorted({unit(f) for f in train})
    count = round(len(digests) * HOLDOUT_FRACTION)
    if len(digests) >= HOLDOUT_FROM:
        count = max(count, HOLDOUT_LEAST)
    elif len(digests) > 1:
        count = max(count, 1)
    ranked = sorted(digests, key=lambda d: hashlib.sha256(f"holdout {d}".encode()).digest())
    chosen = set(ranked[:count])
    for f in train:
        if unit(f) in chosen:
            f.row["split"] = "holdout"


def duplicates(cases: list[dict], found: list[Found]) -> list[dict]:
    """Pairs of a training (or held-out) case and a test case that show the same, where one of them is new.

    cases: rows of the study with name, path, frame, split, sha256, phash.
    """
    fresh = {(str(f.entry.path), f.frame): f.thumb for f in found}
    train = [c for c in cases if c["split"] != "test"]
    test = [c for c in cases if c["split"] == "test"]

    def thumb(case: dict):
        kept = fresh.get((case["path"], case["frame"]))
        return kept if kept is not None else thumbnail(read_image(case["path"], case["frame"]))

    pairs = near_pairs(
        [c["phash"] for c in train], [c["phash"] for c in test], lambda i: thumb(train[i]), lambda j: thumb(test[j])
    )
    named = []
    for i, j, alike in pairs:
        a, b = train[i], test[j]
        if (a["path"], a["frame"]) in fresh or (b["path"], b["frame"]) in fresh:
            kind = "exact" if a["sha256"] == b["sha256"] and a["frame"] == b["frame"] else "near"
            named.append({"kind": kind, "train": a["name"], "test": b["name"], "correlation": round(alike, 4)})
    return named


def copy(found: list[Found], root: Path, target: Path) -> None:
    """Copy the files to `target`, laid out as below `root`; the entries then name the copies."""
    moved: dict[Path, Path] = {}
    for f in found:
        source = f.entry.path
        if source not in moved:
            inside = source.relative_to(root) if source.is_relative_to(root) else Path("elsewhere", *source.parts[1:])
            moved[source] = target / inside
            moved[source].parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, moved[source])
        f.entry = Entry(moved[source], f.entry.split, f.entry.label, f.entry.mask, f.entry.tags)


def printable(path: str | os.PathLike) -> str:
    """A path as it can be shown in one line: control characters as spaces, stray bytes as '?'."""
    text = os.fspath(path).encode("utf-8", "replace").decode()
    return "".join(" " if unicodedata.category(c) == "Cc" else c for c in text)
