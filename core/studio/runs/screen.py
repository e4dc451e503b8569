"""Scores images with an exported model: `python screen.py IMAGES --out FOLDER`. Needs the packages in requirements.txt.

An exported folder contains this file, the model (model.onnx), its card (card.json) and the studio's code that reads and
prepares images (core/). The script needs no home, no database and no torch. It writes FOLDER/scores.csv, with one
row per image (or per frame of a multi-frame file), and FOLDER/maps/, with one grey heat map per image, in which 0 and
255 are the ends of the scale in the card. Files that scores.csv already lists are skipped, so that a stopped run can be
continued. With --watch, the script repeatedly checks the folder of images for new files.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import re
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from core.engine.calibration.quantise import quantise
from core.studio.ingest import decode, dicom
from core.studio.ingest.resize import prepare
from core.studio.ingest.unreadable import Unreadable

HERE = Path(__file__).resolve().parent
INPUTS, OUTPUTS = ["image", "roi"], ["map", "score", "score_roi"]
COLUMNS = [
    "file", "score", "score_roi", "threshold", "threshold_roi", "percentile", "percentile_roi", "flagged",
    "flagged_roi", "peak", "sha256", "error",
]  # fmt: skip
BATCH = 8
FOREVER = sys.maxsize


class BadModel(ValueError):
    """Error for a missing, unreadable or changed model, or for a missing folder of images."""


def digest_of(file: Path) -> str:
    """Computes the SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with file.open("rb") as content:
        for block in iter(lambda: content.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def read_card(folder: Path) -> dict[str, Any]:
    """Reads the card of an exported model and checks its files. Raises BadModel if a file is missing or was changed."""
    try:
        card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
        digests = dict(card["digests"])
    except (OSError, ValueError, KeyError, TypeError):
        raise BadModel(f"{folder} is not an exported model: it contains no readable card.json") from None
    for name, digest in digests.items():
        file = folder / name
        if folder.resolve() not in file.resolve().parents:
            raise BadModel(f"card.json lists a file outside its folder: {name}")
        if not file.is_file():
            raise BadModel(f"{name} is missing from {folder}: copy the folder again")
        if digest_of(file) != digest:
            raise BadModel(f"{name} in {folder} was changed after the export: copy the folder again")
    return card


def printed(file: Path | str) -> str:
    """Converts a path to text that is safe in a table: invalid UTF-8 bytes become escapes such as `\\xff`."""
    return os.fsencode(file).decode("utf-8", "backslashreplace")


class Screen:
    """Exported model that scores images without the studio.

    Args:
        folder: Folder that `Studio.export_run` or `launch.py export` wrote. The copy of this class in such a folder
            (`screen.py`) uses its own folder by default.
        threads: Number of processor threads, or 0 for all.

    Attributes:
        card: Contents of card.json: `detector`, `encoder`, `size`, `thresholds`, `operating_point`, `calibration`
            (scores of the held-out normal images), `pixels` (range of the heat maps), `figures` (metrics of the
            evaluation), `counts` (numbers of the study's images), `version`, `licence` and more.
        size: Side length in pixels to which images are resized.

    Raises:
        BadModel: (a ValueError) If the folder does not contain a model, or if a file that card.json lists is missing or
            was changed.

    Example:
        >>> from pmsacl_studio import Screen, draw_case
        >>> screen = Screen("model")
        >>> [row] = screen.score(draw_case((2, 0), 48).image)
        >>> row["flagged_roi"] == int(row["score_roi"] > row["threshold_roi"])
        True
    """

    def __init__(self, folder: Path | str | None = None, threads: int = 0) -> None:
        import onnxruntime

        self.folder = HERE if folder is None else Path(folder)
        self.card = read_card(self.folder)
        self.size = int(self.card["size"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        try:
            providers = ["CPUExecutionProvider"]
            self.session = onnxruntime.InferenceSession(str(self.folder / "model.onnx"), options, providers=providers)
        except Exception as error:  # the errors of onnxruntime have no common base class
            raise BadModel(f"model.onnx cannot be read by onnxruntime: {str(error).splitlines()[0][:200]}") from None
        takes = [tensor.name for tensor in self.session.get_inputs()]
        gives = [tensor.name for tensor in self.session.get_outputs()]
        if takes != INPUTS or gives != OUTPUTS:
            raise BadModel(f"model.onnx is not a studio export: inputs {', '.join(takes)}; outputs {', '.join(gives)}")
        calibration = self.card["calibration"] or {}
        self.known = {kind: np.array(of["scores"]) for kind, of in calibration.items()}
        pixels = self.card.get("pixels") or {}
        self.low, self.high = pixels.get("lo"), pixels.get("hi")
        self.seen = pixels.get("seen")
        self.scales = self.card.get("scales") or {}  # windows of the study's scanners
        chosen = (self.card.get("operating_point") or {}).get("threshold")  # None: the default
        self.levels = {k: v if chosen is None else chosen for k, v in self.card.get("thresholds", {}).items()}

    def score(self, images: np.ndarray | Sequence[np.ndarray]) -> list[dict[str, Any]]:
        """Scores one or more images.

        Args:
            images: One image, uint8 `(H, W, 3)`, or a sequence of images of any size. Grey images have three equal
                channels.

        Returns:
            A dictionary per image. `score`, `threshold` (score above which the image is flagged), `percentile`
            (percentage of held-out normal images with a lower score) and `flagged` (0 or 1) refer to the whole image;
            `score_roi`, `threshold_roi`, `percentile_roi` and `flagged_roi` refer to its region of interest. `heat` is
            the heat map, float32 `(h, w)`, in which larger values are more abnormal, and `peak` its largest value
            inside the region of interest. Thresholds, percentiles and flags are missing if the model was exported
            before it had scored its study.

        Raises:
            ValueError: If an image is not an array of this type and shape.
        """
        image_list = [images] if isinstance(images, np.ndarray) and images.ndim == 3 else list(images)
        for image in image_list:
            if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
                kind = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
                raise ValueError(f"images must be arrays uint8 (H, W, 3), not {kind}; use `files` to score files")
        if not image_list:
            return []
        pairs = [prepare(image, self.size) for image in image_list]
        prepared, roi = (np.stack(column) for column in zip(*pairs, strict=True))
        maps, scores, scores_roi = self.session.run(OUTPUTS, {"image": prepared, "roi": roi})
        rows = []
        for heat, region, *values in zip(maps, roi, scores, scores_roi, strict=True):
            row: dict[str, Any] = {"heat": heat, "peak": self._peak(heat, region)}
            for kind, name, value in zip(("plain", "roi"), ("", "_roi"), values, strict=True):
                row[f"score{name}"] = float(value)
                if kind in self.known and f"threshold{name}" in self.levels:
                    rank = np.searchsorted(self.known[kind], float(value), side="left")
                    row[f"percentile{name}"] = 100 * float(rank) / len(self.known[kind])
                    row[f"threshold{name}"] = self.levels[f"threshold{name}"]
                    row[f"flagged{name}"] = int(float(value) > row[f"threshold{name}"])
            rows.append(row)
        return rows

    def _peak(self, heat: np.ndarray, roi: np.ndarray) -> float:
        """Returns the maximum of a heat map in the region of interest, where normal images show content."""
        cells = cv2.resize(roi.astype(np.float32), heat.shape[::-1], interpolation=cv2.INTER_AREA) >= 0.5
        cells = cells if cells.any() else np.ones(heat.shape, bool)
        if self.seen:
            grid = np.array([[cell == "1" for cell in row] for row in self.seen], np.uint8)
            cells = cells & (cv2.resize(grid, heat.shape[::-1], interpolation=cv2.INTER_NEAREST) > 0)
        return float(np.where(cells, heat, -np.inf).max()) if cells.any() else float(heat.min())

    def grey(self, heat: np.ndarray) -> np.ndarray:
        """Converts a heat map (h, w) to grey levels, uint8 (h, w), from 0 (normal) to 255 (abnormal).

        The ends of the scale come from `pixels` in the card. If the card has no such entry, they are the smallest and
        largest value of the map.
        """
        low, high = (heat.min(), heat.max()) if self.low is None else (self.low, self.high)
        return (np.clip((heat - low) / max(high - low, 1e-12), 0, 1) * 255).round().astype(np.uint8)

    def frames(self, file: Path) -> Iterator[np.ndarray]:
        """Yields the frames of an image file, uint8 (H, W, 3), windowed like the study's images from the same scanner.

        Most files have one frame. Raises Unreadable (a ValueError) if the file is not an image.
        """
        head = decode.probe(file)
        header = dicom.header(file) if head.format == "DICOM" else None
        for frame in range(head.frames):
            measured = decode.measure(file, frame, head, header)
            frame_range = None if measured is None else (measured.low, measured.high)
            scale = frame_range if measured is None else self.scales.get(measured.scanner, frame_range)
            yield decode.read_image(file, frame, scale)

    def files(self, files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[dict[str, Any]]:
        """Scores image files.

        Args:
            files: One or more files or folders. The images in a folder and all its subfolders are scored.

        Returns:
            A dictionary per frame: the result of `score`, and `file`, `frame` (number of the frame, from 0), `frames`
            (number of frames in the file), `shape` (height and width in pixels) and `sha256` (hash of the file). For a
            file that cannot be read, the dictionary contains only `file`, `frames` (1) and `error`.
        """
        paths = [files] if isinstance(files, (str, os.PathLike)) else files
        rows: list[dict[str, Any]] = []
        waiting: list[tuple[dict[str, Any], np.ndarray]] = []

        def score() -> None:
            for (row, image), scores in zip(waiting, self.score([image for _, image in waiting]), strict=True):
                row |= scores | {"shape": image.shape[:2]}
            waiting.clear()

        for file in (file for path in map(Path, paths) for file in [*found_in(path)] or [path]):
            first = len(rows)
            try:
                digest = digest_of(file)
                for frame, image in enumerate(self.frames(file)):
                    rows.append({"file": printed(file), "frame": frame, "sha256": digest})
                    waiting.append((rows[-1], image))
                    if len(waiting) == BATCH:
                        score()
            except (Unreadable, OSError) as error:
                del rows[first:]
                waiting = [pair for pair in waiting if any(pair[0] is row for row in rows)]
                rows.append({"file": printed(file), "error": getattr(error, "strerror", None) or str(error)})
            for row in rows[first:]:
                row["frames"] = len(rows) - first
        if waiting:
            score()
        return rows


def packed(row: dict[str, Any]) -> dict[str, Any]:
    """Packs a result's heat map: `map` (zlib of little-endian uint16), its size `map_h`, `map_w`, and its range."""
    heat = row.pop("heat", None)
    row.pop("shape", None)
    row.pop("frames", None)
    if heat is not None:
        codes, low, high = quantise(heat)
        data = zlib.compress(np.ascontiguousarray(codes, "<u2").tobytes(), 6)
        row |= {"map": data, "map_h": heat.shape[0], "map_w": heat.shape[1], "map_lo": low, "map_hi": high}
    return row


_screen: Screen | None = None  # the model of this worker process


def _open(folder: str, threads: int) -> None:
    global _screen
    _screen = Screen(folder, threads)


def _work(files: list[str], maps: str | None, root: str) -> list[dict[str, Any]]:
    assert _screen is not None
    rows = _screen.files([Path(file) for file in files])
    for row in rows:
        heat, shape = row.pop("heat", None), row.pop("shape", None)
        if row.pop("frames") > 1:
            row["file"] += f" #{row['frame'] + 1}"
        if heat is not None and maps is not None:
            name = os.path.relpath(row["file"], printed(root))
            target = Path(maps) / (name + ".png")
            target.parent.mkdir(parents=True, exist_ok=True)
            grey = cv2.resize(_screen.grey(heat), shape[::-1], interpolation=cv2.INTER_LINEAR)
            target.write_bytes(cv2.imencode(".png", grey)[1].tobytes())
    return rows


def found_in(source: Path) -> Iterator[Path]:
    """Yields the images in a folder and its subfolders, sorted by name, or `source` itself if it is a file.

    A file whose name has no suffix or a numeric suffix is treated as an image if its content is that of a DICOM file.
    """
    if source.is_file():
        yield source
    for folder, inner, names in os.walk(source):
        inner.sort()
        for name in sorted(names):
            file, suffix = Path(folder, name), Path(name).suffix.lower()
            bare = (not suffix[1:] or suffix[1:].isdigit()) and file.is_file() and dicom.is_dicom(file)
            if not name.startswith(".") and (bare or suffix in decode.SUFFIXES):
                yield file


def _settled(file: Path, sizes: dict[Path, int]) -> bool:
    """Returns whether a file has kept its size since the last check, because a growing file is still being written."""
    before, sizes[file] = sizes.get(file, -1), file.stat().st_size
    return before == sizes[file]


def screen_folder(
    model: Path,
    source: Path,
    out: Path,
    *,
    processes: int = 1,
    threads: int = 0,
    maps: bool = True,
    watch: float = 0,
    rounds: int = FOREVER,
) -> dict[str, Any]:
    """Scores the images in `source` and writes the results to `out`; returns {"images", "failed", "flagged",
    "seconds"}.

    watch: Seconds between two checks of the folder for new images, or 0 to check once.
    rounds: Maximum number of checks.

    Raises BadModel if `source` is missing or the model cannot be used.
    """
    if not source.exists():
        raise BadModel(f"{source} does not exist")
    read_card(model)
    out.mkdir(parents=True, exist_ok=True)
    table = out / "scores.csv"
    done: set[str] = set()
    if table.exists():
        with table.open(newline="", encoding="utf-8") as lines:
            done = {re.sub(r" #\d+$", "", line["file"]) for line in csv.DictReader(lines) if line.get("file")}
    counts: dict[str, Any] = {"images": 0, "failed": 0, "flagged": 0}
    root = str(source if source.is_dir() else source.parent)
    started, sizes = time.monotonic(), dict[Path, int]()
    map_folder = str(out / "maps") if maps else None
    pool = None
    if processes > 1:
        pool = ProcessPoolExecutor(processes, get_context("spawn"), _open, (str(model), threads or 1))
    else:
        _open(str(model), threads)
    try:
        with table.open("a", newline="", encoding="utf-8") as lines:
            writer = csv.DictWriter(lines, COLUMNS, extrasaction="ignore")
            if not done and table.stat().st_size == 0:
                writer.writeheader()
            while rounds > 0:
                rounds -= 1
                new = [file for file in found_in(source) if printed(file) not in done]
                new = [file for file in new if _settled(file, sizes)] if watch else new
                done.update(map(printed, new))
                for rows in _batches([str(file) for file in new], map_folder, root, pool):
                    for row in rows:
                        writer.writerow(row)
                        counts["images"] += 1
                        counts["failed"] += "error" in row
                        counts["flagged"] += row.get("flagged_roi", 0)
                    lines.flush()
                if not watch:
                    break
                time.sleep(watch)
    except KeyboardInterrupt:
        pass
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    return {**counts, "seconds": round(time.monotonic() - started, 3)}


def _batches(
    files: list[str], maps: str | None, root: str, pool: ProcessPoolExecutor | None
) -> Iterable[list[dict[str, Any]]]:
    batches = [files[i : i + BATCH] for i in range(0, len(files), BATCH)]
    if pool is None:
        return (_work(batch, maps, root) for batch in batches)
    return pool.map(_work, batches, [maps] * len(batches), [root] * len(batches))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, help="an image or a folder of images")
    parser.add_argument("--out", type=Path, required=True, help="folder for scores.csv and maps/")
    parser.add_argument("--model", type=Path, default=HERE, help="exported folder (default: this script's folder)")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0, help="threads of each process; 0 for all")
    parser.add_argument("--no-maps", action="store_true")
    parser.add_argument("--watch", type=float, default=0, metavar="SECONDS", help="time between two checks")
    args = parser.parse_args(argv)
    try:
        counts = screen_folder(
            args.model, args.source, args.out, processes=args.processes, threads=args.threads,
            maps=not args.no_maps, watch=args.watch,
        )  # fmt: skip
    except BadModel as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
