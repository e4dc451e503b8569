"""Reads recordings with OpenCV, and selects the frames of a recording that become cases.

A case stores the number of its frame in the file, counted from 0 in display order. Reading a frame by number relies on
seeking, which is inaccurate in some files with a variable frame rate; `faithful` detects such files at import.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from core.studio.ingest.unreadable import Unreadable, limit

SUFFIXES = {".mp4", ".m4v", ".avi", ".mov", ".mkv", ".mpg", ".mpeg", ".wmv", ".webm"}
FORMAT = "video"
MOST = 20_000  # frames imported from one recording
NEAR = 48  # frames ahead up to which decoding on is as fast as seeking, which starts at a key frame
COMPLETE = 0.9  # fraction of the frames in the header below which a file counts as cut short
LARGEST_INDEX = 1 << 26  # bytes of the box in a MOV file that describes the frames
_KEPT_OPEN = 4
_PROBES = 12


@dataclass(frozen=True)
class Sampling:
    """Selects every `every`-th frame of a recording or, if `every` is None, `per_second` frames per second."""

    every: int | None = None
    per_second: float = 1.0

    def __post_init__(self):
        if self.every is not None and not 1 <= self.every <= 1_000_000:
            raise ValueError(f"to import every n-th frame of a recording, n must be 1 to 1,000,000, not {self.every}")
        if not 0 < self.per_second <= 1000:
            raise ValueError(f"frames per second must be above 0 and at most 1000, not {self.per_second:g}")

    @classmethod
    def of(cls, config: dict) -> Sampling:
        """Returns the selection that is stored under "video" in a study's configuration, or the default selection."""
        return cls(**(config.get("video") or {}))

    def to_dict(self) -> dict:
        return {"every": self.every, "per_second": self.per_second}

    def numbers(self, frames: int, rate: float) -> list[int]:
        """Returns the numbers of the frames to import from a file with `frames` frames at `rate` frames per second.

        Raises Unreadable if the rate is needed but unknown, or if more than MOST frames would be imported.
        """
        if self.every is None and not (math.isfinite(rate) and rate > 0):
            raise Unreadable("its header states no frame rate; choose every n-th frame instead of frames per second")
        step = self.every or max(rate / self.per_second, 1.0)
        count = math.ceil(frames / step)
        if count > MOST:
            raise Unreadable(f"it has {count} frames to import, but the maximum is {MOST}; choose fewer frames")
        return sorted({n for n in (round(i * step) for i in range(count)) if n < frames})


def is_video(path: Path) -> bool:
    """Returns whether a file is a video, judged by its suffix."""
    return path.suffix.lower() in SUFFIXES


def probe(path: Path) -> tuple[int, int, int, float]:
    """Returns (width, height, number of frames, frames per second) of a video.

    Frames are counted if the header does not state their number. Raises Unreadable if the file is not a readable video.
    """
    with _capture(path) as capture:
        width, height, count, rate = _head(capture)
        if count is None:
            count = 0
            while capture.grab():
                count += 1
    if not count:
        raise Unreadable("it has no frame that can be decoded")
    seconds = _seconds_shown(path)
    return width, height, min(count, round(seconds * rate) or 1) if seconds and rate > 0 else count, rate


def frames(path: Path, numbers: Sequence[int]) -> Iterator[np.ndarray]:
    """Decodes a video from the start; yields the frames with the given ascending numbers as RGB, uint8 `(H, W, 3)`.

    Frames after the end of the file are omitted. Raises Unreadable if less than COMPLETE of all frames can be read.
    """
    total, at = probe(path)[2], 0
    with _capture(path) as capture:
        for number in numbers:
            while at <= number:
                if not capture.grab():
                    if at < COMPLETE * total:
                        raise Unreadable(
                            f"cut short, or its frame rate varies: its header says {total} frames, it ends after {at}"
                        )
                    return
                at += 1
            yield _image(capture.retrieve())


def read_frame(path: Path, number: int) -> np.ndarray:
    """Reads a frame by its number as RGB, uint8 `(H, W, 3)`. Raises Unreadable if the frame does not exist."""
    stat = os.stat(path)
    reader = _reader(path, stat.st_size, stat.st_mtime_ns)
    with reader.lock:
        try:
            return reader.read(number)
        except Unreadable:
            reader.at = None
            raise


def probes(numbers: Sequence[int]) -> list[int]:
    """Selects a few of the frame numbers, including the first and the last, for the check in `faithful`."""
    return [numbers[round(i)] for i in np.linspace(0, len(numbers) - 1, min(_PROBES, len(numbers)))]


def is_still(path: Path) -> bool:
    """Returns whether a recording has at least two frames and all frames decode to the same image.

    This happens with interlaced recordings, for which OpenCV's FFmpeg returns memory that was never written.
    """
    first, number = None, 0
    with _capture(path) as capture:
        while (read := capture.read())[0]:
            pixels = digest(_image(read))
            if first not in (None, pixels):
                return False
            first, number = pixels, number + 1
    return number > 1


def faithful(path: Path, digests: dict[int, str]) -> bool:
    """Returns whether seeking finds the same frames as decoding in order, which produced `digests` by number."""
    with _capture(path) as capture:
        if _head(capture)[2] is None:
            return True  # such a file is always decoded from the start
        for number in sorted(digests, reverse=True):  # backwards, so that each number requires a seek
            _seek(capture, number)
            done, frame = capture.read()
            if not done or digest(_image((done, frame))) != digests[number]:
                return False
    return True


def _seek(capture: cv2.VideoCapture, number: int) -> None:
    capture.set(cv2.CAP_PROP_POS_FRAMES, number)


def digest(image: np.ndarray) -> str:
    """Returns a digest of the pixels of a frame as 32 hex digits."""
    return hashlib.blake2b(np.ascontiguousarray(image).tobytes(), digest_size=16).hexdigest()


class _Reader:
    """Open video file. `at` is the number of the frame that is read next, or None if that is unknown."""

    def __init__(self, path: Path):
        self.lock = threading.Lock()
        self.capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
        self.at: int | None = 0
        self.path = str(path)
        self.seeks = self.capture.get(cv2.CAP_PROP_FRAME_COUNT) >= 1  # a stream without a count has no index either
        if not self.capture.isOpened():
            raise Unreadable("not a readable video despite its suffix, or damaged")

    def read(self, number: int) -> np.ndarray:
        if not self.seeks and (self.at is None or number < self.at):
            self.capture.open(self.path, cv2.CAP_FFMPEG)
            self.at = 0
        elif self.at is None or (self.seeks and not self.at <= number <= self.at + NEAR):
            _seek(self.capture, number)
            self.at = number
        while self.at < number:
            if not self.capture.grab():
                raise Unreadable(f"it has no frame {number}")
            self.at += 1
        done = self.capture.read()
        self.at += 1
        if not done[0]:
            raise Unreadable(f"it has no frame {number}")
        return _image(done)


@functools.lru_cache(_KEPT_OPEN)
def _reader(path: Path, size: int, changed: int) -> _Reader:
    """Returns the file's open reader, because opening is slow; `size` and `changed` show whether it was replaced."""
    return _Reader(path)


@contextlib.contextmanager
def _capture(path: Path) -> Iterator[cv2.VideoCapture]:
    reader = _Reader(path)
    try:
        yield reader.capture
    finally:
        reader.capture.release()


def _head(capture: cv2.VideoCapture) -> tuple[int, int, int | None, float]:
    """Returns (width, height, number of frames or None if the header does not state it, frames per second)."""
    width, height, count = (
        int(capture.get(p)) for p in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT, cv2.CAP_PROP_FRAME_COUNT)
    )
    limit(width, height)
    return width, height, count if count >= 1 else None, float(capture.get(cv2.CAP_PROP_FPS))


def _seconds_shown(path: Path) -> float | None:
    """Returns the playing time of a MOV or MP4 file by its edit list, which may exclude frames, or None without one."""
    moov = b""
    with path.open("rb") as file:
        while len(head := file.read(16)) >= 8:
            size, kind = struct.unpack(">I4s", head[:8])
            begin = 8
            if size == 1 and len(head) == 16:
                size, begin = struct.unpack(">Q", head[8:])[0], 16
            if not kind.isalnum() or size < begin:
                break
            if kind == b"moov" and size <= LARGEST_INDEX:
                file.seek(begin - len(head), os.SEEK_CUR)
                moov = file.read(size - begin)
                break
            file.seek(size - len(head), os.SEEK_CUR)
    try:
        at = moov.index(b"mvhd") + 4
        unit = struct.unpack_from(">I", moov, at + (20 if moov[at] else 12))[0]
        longest, at = 0, moov.find(b"elst")
        while at >= 0:
            form, count = ">QqI" if moov[at + 4] else ">IiI", struct.unpack_from(">I", moov, at + 8)[0]
            edits = [
                struct.unpack_from(form, moov, at + 12 + i * struct.calcsize(form)) for i in range(min(count, 1000))
            ]
            longest = max(longest, sum(length for length, start, _ in edits if start >= 0))
            at = moov.find(b"elst", at + 4)
        return longest / unit or None
    except (ValueError, IndexError, struct.error, ZeroDivisionError):
        return None


def _image(read: tuple[bool, np.ndarray | None]) -> np.ndarray:
    done, frame = read
    if not done or frame is None:
        raise Unreadable("one of its frames cannot be decoded")
    return np.ascontiguousarray(frame[..., ::-1] if frame.ndim == 3 else np.repeat(frame[..., None], 3, 2))
