"""Reads files into cases: each file is read once; a file that cannot be imported is listed with its reason.

No database row is written here. A file of several frames (DICOM, TIFF, GIF, a recording) gives one `Found` per frame;
for a DICOM file that is one slice of a volume, `Found.row` has its position in that volume.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import unicodedata
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np

from core.engine.files import file_sha256
from core.studio.ingest import burned_in, dicom, video, volumes
from core.studio.ingest.cache import Progress
from core.studio.ingest.decode import Measured, Probe, measure, probe, read_image
from core.studio.ingest.layouts import Entries, Entry
from core.studio.ingest.masks import encode_mask, read_mask
from core.studio.ingest.unreadable import Unreadable
from core.studio.ingest.video import Sampling

AHEAD = 8  # files that are read ahead per processor
SMALLEST = 8  # pixels per side: smaller pictures are refused
TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction in which a name is displayed, so that "gnp.exe" may appear as "exe.png"."""
MOST_NAMED = 1000  # skipped files that a report names
NEAR_BITS = 10  # of 64; only for candidates, whose fine detail decides
# Measured on 64 px thumbnails: pictures re-encoded at quality 50, 0.7 times the size and brightened stay above 0.96;
# different colonoscopies stay below 0.68, chest X-rays below 0.47, fundi (all similar at low resolution) below 0.85.
NEAR_CORRELATION = 0.92


@dataclass
class Found:
    """A frame that was read, with the values of its case's row, its thumbnail and its mask."""

    entry: Entry
    frame: int
    frames: int
    row: dict
    thumb: np.ndarray
    mask: bytes | None = None
    mask_problems: list[tuple[Path, str]] = field(default_factory=list)
    measured: Measured | None = None
    patient: str | None = None  # as the layout or header gives it; the database only has its keyed hash
    uid: str | None = None  # SOP instance UID of a DICOM file
    odd: tuple[str, ...] = ()  # what is wrong with a DICOM file's header


class _Skipped:
    """Lists skipped files as [{"path", "reason"}]: the first MOST_NAMED, then how many more."""

    def __init__(self) -> None:
        self.named: list[dict] = []
        self.more = 0

    def add(self, path: Path, reason: str) -> None:
        if len(self.named) < MOST_NAMED:
            self.named.append({"path": printable(path), "reason": reason})
        else:
            self.more += 1

    def rows(self, heading: str = "also skipped") -> list[dict]:
        last = {"path": f"and {self.more} more", "reason": f"{heading}; only the first {MOST_NAMED} are listed"}
        return [*self.named, last] if self.more else self.named


def read_all(
    entries: Collection[Entry] | Entries, on_progress: Progress | None, sampling: Sampling | None = None
) -> tuple[list[Found], list[dict]]:
    """Reads all frames of all files; returns (frames, skipped files and masks as [{"path", "reason"}]).

    sampling: which frames of recordings are read. The slices of a volume are returned in their order in the volume,
    regardless of file names.
    """
    files: list[Found] = []
    rejected, paths, total = _Skipped(), set[Path](), len(entries)
    for done, (entry, result) in enumerate(_results(entries, sampling or Sampling()), start=1):
        if isinstance(result, str):
            rejected.add(entry.path, result)
        elif entry.path in paths:
            rejected.add(entry.path, "it is listed twice")
        else:
            paths.add(entry.path)
            files += result
            for mask, problem in result[0].mask_problems:
                rejected.add(mask, problem)
        if on_progress:
            on_progress(done, total)
    return volumes.in_order(files), rejected.rows()


def _results(entries: Iterable[Entry], sampling: Sampling) -> Iterator[tuple[Entry, list[Found] | str]]:
    """Yields each entry with its frames, in order; only a few are read ahead, however long the list is."""
    workers = os.cpu_count() or 1
    waiting: deque[tuple[Entry, Future[list[Found] | str]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for entry in entries:
            waiting.append((entry, pool.submit(_read, entry, sampling)))
            if len(waiting) >= AHEAD * workers:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()


def _read(entry: Entry, sampling: Sampling) -> list[Found] | str:
    """Returns all frames of one file, or the reason why it is skipped. No file's content may abort the import."""
    if entry.problem:
        return entry.problem
    try:
        str(entry.path).encode("utf-8")
    except UnicodeEncodeError:
        return "its name is not valid UTF-8; rename the file"
    if TURNING & set(entry.path.name):
        return "its name contains a character that changes the direction of reading; rename the file"
    try:
        head = probe(entry.path)
        if min(head.width, head.height) < SMALLEST:
            return f"it has {head.width} x {head.height} pixels; a picture has {SMALLEST} or more on each side"
        digest = file_sha256(entry.path)
        header = dicom.header(entry.path) if head.format == "DICOM" else None
        declared = header is not None and dicom.declares_text(header)
        piece = None if header is None else volumes.slice_of(header)
        patient = entry.patient or (dicom.patient(header) if header is not None else None)
        frames = []
        for frame, image in _frames(entry.path, head, sampling):
            if head.format != "TIFF":  # its pictures may differ in size, and are checked on reading
                _check_shape(image, head)
            thumb, measured = thumbnail(image), measure(entry.path, frame, head, header)
            row = {
                "width": image.shape[1],
                "height": image.shape[0],
                "bits": head.bits,
                "modality": head.modality,
                "device": None if header is None else dicom.device(header),
                "sha256": digest,
                "phash": perceptual_hash(thumb),
                "burned_in": int(declared or burned_in.likely(image)),
                **(piece.to_row() if piece else {}),
            }
            uid = None if header is None else dicom.text(header, "SOPInstanceUID") or None
            odd = () if header is None else tuple(header.odd)
            frames.append(
                Found(entry, frame, head.frames, row, thumb, measured=measured, patient=patient, uid=uid, odd=odd)
            )
    except Unreadable as error:
        return str(error)
    except MemoryError:
        return "not enough memory to decode it"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except Exception as error:  # a bug in a decoder must not lose the other files
        logging.getLogger(__name__).debug("a decoder failed", exc_info=error)
        return "it cannot be decoded"
    if entry.masks and (problem := _add_masks(frames[0], head.frames)):
        return problem
    return frames


def _add_masks(frame: Found, frames: int) -> str | None:
    """Adds the lesions of all masks of an image; returns the reason if the image has to be skipped."""
    lesion = None
    for path in frame.entry.masks:
        try:
            if frames > 1:
                raise Unreadable("a mask of a file with several frames; it was not imported")
            mask = read_mask(path, (frame.row["width"], frame.row["height"]))
        except (Unreadable, OSError) as error:
            frame.mask_problems.append((path, str(error)))
            continue
        if mask.all():
            frame.mask_problems.append((path, "the mask covers the whole image; it was not imported"))
        elif mask.any():
            lesion = mask if lesion is None else lesion | mask
        elif frame.entry.label != "normal":
            frame.mask_problems.append((path, "the mask is empty; it was not imported"))
    if lesion is not None and frame.entry.label == "normal":
        return "it is labelled normal, but its mask shows a lesion"
    frame.mask = None if lesion is None else encode_mask(lesion)
    return None


def _check_shape(image: np.ndarray, head: Probe) -> None:
    """Raises Unreadable if the decoded size differs from the header's. PNGs may be rotated (EXIF after the pixels)."""
    height, width = image.shape[:2]
    sizes = [(head.width, head.height), (head.height, head.width)]
    if (width, height) not in sizes[: 1 + (head.format == "PNG")]:
        raise Unreadable(f"its header says {head.width} x {head.height} pixels, decoded are {width} x {height}")


def odd_headers(files: Iterable[Found]) -> list[dict]:
    """Lists what is wrong with the headers of imported files: [{"path", "reason"}], one entry per file."""
    named = _Skipped()
    for path, odd in {f.entry.path: f.odd for f in files if f.odd}.items():
        named.add(path, "; ".join(odd))
    return named.rows("also odd")


def agree(frames: Collection[Found], existing: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Sets each frame's `scale` to the scale of its scanner; returns all scales, existing ones unchanged.

    The scale of a new scanner spans the lowest `low` to the highest `high` of its frames.
    """
    scales: dict[str, list[float]] = {}
    for measured in (frame.measured for frame in frames if frame.measured):
        low, high = scales.get(measured.scanner, (measured.low, measured.high))
        scales[measured.scanner] = [min(low, measured.low), max(high, measured.high)]
    scales |= {who: list(scale) for who, scale in existing.items()}
    for frame in frames:
        frame.row["scale"] = json.dumps(scales[frame.measured.scanner]) if frame.measured else None
    return scales


def _frames(path: Path, head: Probe, sampling: Sampling) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (number, image uint8 (H, W, 3)) of each frame that becomes a case."""
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
    if len(set(digests.values())) == 1 and video.still(path):
        raise Unreadable(
            "every frame of it comes out the same: interlaced recordings are not decoded here; convert it to "
            "progressive frames (ffmpeg -i IN -vf yadif OUT.mp4) and import that"
        )
    if not video.faithful(path, digests):
        raise Unreadable(
            "its frames cannot be found again by their number (its frame rate varies, or its index is damaged): "
            "convert it to a constant frame rate and import that"
        )


def printable(path: str | os.PathLike) -> str:
    """Makes a path printable in one line: control characters and TURNING become spaces, invalid bytes '?'."""
    text = os.fspath(path).encode("utf-8", "replace").decode()
    return "".join(" " if c in TURNING or unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in text)


# Pictures that occur twice, exactly (same bytes) or nearly (same look), in training and test cases.


def thumbnail(image: np.ndarray) -> np.ndarray:
    """Shrinks an image to a grey thumbnail: uint8 (H, W, 3) -> uint8 (64, 64)."""
    return cv2.cvtColor(cv2.resize(image, (64, 64), interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2GRAY)


def perceptual_hash(thumb: np.ndarray) -> str:
    """Hashes a thumbnail: uint8 (64, 64) -> 16 hex digits.

    Each bit says whether one of the 64 DCT coefficients of lowest frequency exceeds their median (without the first).
    """
    small = cv2.resize(thumb, (32, 32), interpolation=cv2.INTER_AREA)
    low = cv2.dct(small.astype(np.float32))[:8, :8].ravel()
    bits = low > np.median(low[1:])
    return f"{int(''.join('1' if b else '0' for b in bits), 2):016x}"


def duplicates(cases: list[dict], files: list[Found]) -> list[dict]:
    """Finds pairs of a training (or held-out) and a test case that show the same picture, at least one of them new.

    Hashes alone would match any two chest X-rays; a pair counts only if its fine detail agrees as well.

    cases: study rows with name, path, frame, split, sha256, phash. Returns [{"kind", "train", "test", "correlation"}].
    """
    fresh = {(str(f.entry.path), f.frame): f.thumb for f in files}
    train = [c for c in cases if c["split"] != "test"]
    test = [c for c in cases if c["split"] == "test"]
    hashes = np.array([int(c["phash"], 16) for c in test], np.uint64)

    @functools.cache
    def detail(key: tuple[str, int]) -> np.ndarray:
        return _standard(fresh[key] if key in fresh else thumbnail(read_image(*key)))

    pairs = []
    for a in train:
        near = np.bitwise_count(np.uint64(int(a["phash"], 16)) ^ hashes) <= NEAR_BITS
        for b in (test[i] for i in np.flatnonzero(near)):
            keys = (a["path"], a["frame"]), (b["path"], b["frame"])
            if not fresh.keys() & set(keys):
                continue
            similarity = float(detail(keys[0]) @ detail(keys[1]))
            if similarity >= NEAR_CORRELATION:
                kind = "exact" if a["sha256"] == b["sha256"] and a["frame"] == b["frame"] else "near"
                pairs.append({"kind": kind, "train": a["name"], "test": b["name"], "correlation": round(similarity, 4)})
    return pairs


def alike(thumbs: list[np.ndarray]) -> str:
    """Describes how many of the normal images are identical or blank; returns "" if neither is frequent.

    thumbs: uint8 (64, 64) of all normal images.
    """
    counts = Counter(thumb.tobytes() for thumb in thumbs)
    same, blank = max(counts.values(), default=0), sum(int(thumb.max()) - int(thumb.min()) < 4 for thumb in thumbs)
    sentences = []
    if same > 1 and same * 10 >= len(thumbs):
        sentences.append(f"{same} of {len(thumbs)} normal images are the same picture")
    if blank * 10 >= len(thumbs) > 0 and blank:
        sentences.append(f"{blank} of {len(thumbs)} normal images show one shade and nothing else")
    return "; ".join(sentences) + (": a detector trained on them says little about others" if sentences else "")


def _standard(thumb: np.ndarray) -> np.ndarray:
    """Returns a thumbnail's fine detail, normalised; removes coarse shapes, which all images of an organ share."""
    grey = thumb.astype(np.float32)
    fine = np.clip(grey - cv2.GaussianBlur(grey, (0, 0), 1.5), -12, 12).ravel()
    fine -= fine.mean()
    return fine / max(float(np.linalg.norm(fine)), 1e-6)
