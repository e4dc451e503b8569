"""Reads image files for an import, without writing to the database.

A file with several frames (DICOM, TIFF, GIF or a recording) is read as one `Found` per frame. If a DICOM file is one
slice of a volume, `Found.row` includes the position of the slice. Skipped files are reported with the reason.
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

AHEAD = 8  # files read ahead per processor
SMALLEST = 8  # pixels per side: smaller pictures are refused
TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction in which a name is displayed, so that "gnp.exe" may appear as "exe.png"."""
MOST_NAMED = 1000  # maximum number of skipped files that a report lists
NEAR_BITS = 10  # differing bits of 64 up to which two hashes make a pair of candidates
# On thumbnails, pictures that were re-encoded at JPEG quality 50, resized to 0.7 and brightened correlate above 0.96;
# different colonoscopy frames correlate below 0.68, chest X-rays below 0.47 and fundus photographs below 0.85.
NEAR_CORRELATION = 0.92


@dataclass
class Found:
    """Frame read from a file, with the columns of its future case (`row`), its thumbnail and its lesion mask as PNG."""

    entry: Entry
    frame: int
    frames: int
    row: dict
    thumb: np.ndarray
    mask: bytes | None = None
    mask_problems: list[tuple[Path, str]] = field(default_factory=list)
    measured: Measured | None = None
    patient: str | None = None  # as named by the layout or header; the database stores only a keyed hash
    uid: str | None = None  # SOP instance UID of a DICOM file
    odd: tuple[str, ...] = ()  # faults of the header of a DICOM file


class _Skipped:
    """List of skipped files with reasons, which names the first MOST_NAMED files and counts the others."""

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
    """Reads the frames of all files; returns (frames, skipped files and masks as [{"path", "reason"}]).

    `sampling` selects the frames of recordings. The slices of each volume are returned in the order of their positions.
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
    """Yields each entry, in order, with its frames or the reason why it is skipped; reads only a few files ahead."""
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
    """Returns the frames of a file, or the reason why the file is skipped. No file content may abort the import."""
    if entry.problem:
        return entry.problem
    try:
        str(entry.path).encode("utf-8")
    except UnicodeEncodeError:
        return "its name is not valid UTF-8; rename the file"
    if TURNING & set(entry.path.name):
        return "its name contains a character that changes the text direction; rename the file"
    try:
        head = probe(entry.path)
        if min(head.width, head.height) < SMALLEST:
            return f"it has {head.width} x {head.height} pixels; the minimum is {SMALLEST} x {SMALLEST} pixels"
        digest = file_sha256(entry.path)
        header = dicom.header(entry.path) if head.format == "DICOM" else None
        declared = header is not None and dicom.declares_text(header)
        piece = None if header is None else volumes.slice_of(header)
        patient = entry.patient or (dicom.patient(header) if header is not None else None)
        frames = []
        for frame, image in _frames(entry.path, head, sampling):
            if head.format != "TIFF":  # the pictures of a TIFF may differ in size, which `tiff.read` checks
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
    except Exception as error:  # an error in a decoder must not abort the import of other files
        logging.getLogger(__name__).debug("a decoder failed", exc_info=error)
        return "it cannot be decoded"
    if entry.masks and (problem := _add_masks(frames[0], head.frames)):
        return problem
    return frames


def _add_masks(frame: Found, frames: int) -> str | None:
    """Combines the lesion masks of an image. Returns the reason if the image must be skipped, or None."""
    lesion = None
    for path in frame.entry.masks:
        try:
            if frames > 1:
                raise Unreadable("the mask belongs to a file with several frames; it was not imported")
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
    """Raises Unreadable if the decoded size differs from the header. EXIF data after the pixels may rotate a PNG."""
    height, width = image.shape[:2]
    sizes = [(head.width, head.height), (head.height, head.width)]
    if (width, height) not in sizes[: 1 + (head.format == "PNG")]:
        raise Unreadable(f"its header says {head.width} x {head.height} pixels, but {width} x {height} were decoded")


def odd_headers(files: Iterable[Found]) -> list[dict]:
    """Returns the faults in the headers of imported files as [{"path", "reason"}], with one entry per file."""
    named = _Skipped()
    for path, odd in {f.entry.path: f.odd for f in files if f.odd}.items():
        named.add(path, "; ".join(odd))
    return named.rows("also has a faulty header")


def assign_scales(frames: Collection[Found], existing: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Sets the `scale` in each frame's row to the scale of its scanner; returns {scanner: scale} for all scanners.

    A scale is [stored value that becomes 0, stored value that becomes 255]. The scales in `existing` do not change. The
    scale of a new scanner covers the value ranges of all its frames.
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
    """Yields (number, image as uint8 `(H, W, 3)`) for each frame that becomes a case."""
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
    if len(set(digests.values())) == 1 and video.is_still(path):
        raise Unreadable(
            "all of its frames decode to the same image, as happens with interlaced recordings; convert it to "
            "progressive frames (ffmpeg -i IN -vf yadif OUT.mp4) and import the result"
        )
    if not video.faithful(path, digests):
        raise Unreadable(
            "its frames cannot be read by number, because its frame rate varies or its index is damaged; "
            "convert it to a constant frame rate and import the result"
        )


def printable(path: str | os.PathLike) -> str:
    """Returns a path as one printable line; spaces replace control characters, and '?' replaces invalid bytes."""
    text = os.fspath(path).encode("utf-8", "replace").decode()
    return "".join(" " if c in TURNING or unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in text)


# Duplicates in training and test cases: exact (same bytes) or near (same appearance).


def thumbnail(image: np.ndarray) -> np.ndarray:
    """Returns a grey thumbnail, uint8 `(64, 64)`, of an RGB image, uint8 `(H, W, 3)`."""
    return cv2.cvtColor(cv2.resize(image, (64, 64), interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2GRAY)


def perceptual_hash(thumb: np.ndarray) -> str:
    """Returns the perceptual hash of a thumbnail, uint8 `(64, 64)`, as 16 hex digits.

    Each bit tells whether one of the 64 lowest DCT coefficients exceeds their median, computed without the first one.
    """
    small = cv2.resize(thumb, (32, 32), interpolation=cv2.INTER_AREA)
    low = cv2.dct(small.astype(np.float32))[:8, :8].ravel()
    bits = low > np.median(low[1:])
    return f"{int(''.join('1' if b else '0' for b in bits), 2):016x}"


def duplicates(cases: list[dict], files: list[Found]) -> list[dict]:
    """Finds pairs of a training (or held-out) case and a test case that show the same picture.

    Returns [{"kind": "exact" or "near", "train": name, "test": name, "correlation"}]. At least one case of a pair is in
    `files`. Not only the hashes, but also the fine detail must agree, because all chest X-rays have similar hashes.
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


def uniformity_warning(thumbs: list[np.ndarray]) -> str:
    """Returns a warning if at least a tenth of the normal images are identical or blank, else "".

    `thumbs` contains the thumbnail of each normal image, uint8 `(64, 64)`.
    """
    counts = Counter(thumb.tobytes() for thumb in thumbs)
    same, blank = max(counts.values(), default=0), sum(int(thumb.max()) - int(thumb.min()) < 4 for thumb in thumbs)
    sentences = []
    if same > 1 and same * 10 >= len(thumbs):
        sentences.append(f"{same} of {len(thumbs)} normal images are the same picture")
    if blank * 10 >= len(thumbs) > 0 and blank:
        sentences.append(f"{blank} of {len(thumbs)} normal images are blank")
    return "; ".join(sentences) + (": a detector trained on them is unreliable on other images" if sentences else "")


def _standard(thumb: np.ndarray) -> np.ndarray:
    """Returns the normalised fine detail of a thumbnail, without coarse shapes, which all images of an organ share."""
    grey = thumb.astype(np.float32)
    fine = np.clip(grey - cv2.GaussianBlur(grey, (0, 0), 1.5), -12, 12).ravel()
    fine -= fine.mean()
    return fine / max(float(np.linalg.norm(fine)), 1e-6)
