"""Checks runs that are imported from another installation: their settings, summaries, scores and results.

Settings are checked by the configuration class of the run's method. Only weights files in this home can be used.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Interval, Len
from pydantic import AfterValidator, ConfigDict

from core.engine.objectives.config import PretrainConfig
from core.engine.registry import DETECTORS, OBJECTIVES, STRONG
from core.studio.db.foreign import Count, Integer, Name, Number, Record, Refused, Sha256, Text, read, refusing
from core.studio.db.home import Home
from core.studio.runs.weights import FILE, KEYS, NAMES

MOST_HELD_OUT = 1_000_000
LARGEST_MAP = 8192  # largest height and width of a heat map
Side = Annotated[int, Interval(ge=16, le=8192)]  # side length of images in pixels


class Lenient(Record):
    """Record that ignores unknown fields, because other versions of the studio may write more fields."""

    model_config = ConfigDict(extra="ignore")


class Pixels(Lenient):
    """Scale on which heat maps are coloured and outlined (see `PixelScale`)."""

    lo: Number
    hi: Number
    threshold: Number
    share: Number | None = None
    seen: Annotated[tuple[Annotated[str, Len(1, 4096)], ...], Len(0, 4096)] | None = None
    level: Number | None = None


def _ascending(scores: tuple[float, ...]) -> tuple[float, ...]:
    if list(scores) != sorted(scores):
        raise ValueError("scores must be in ascending order")
    return scores


class Calibrated(Lenient):
    """Calibration: scores of held-out normal images in ascending order, and the scale of the heat maps."""

    scores: Annotated[tuple[Number, ...], Len(1, MOST_HELD_OUT), AfterValidator(_ascending)]
    pixels: Pixels | None = None


class Calibrations(Lenient):
    """Calibrations for scores of the whole image and for scores of its region of interest."""

    plain: Calibrated
    roi: Calibrated


class Thresholds(Lenient):
    """Default thresholds for scores of the whole image (`threshold`) and of its region of interest."""

    threshold: Number | None = None
    threshold_roi: Number | None = None


class Gain(Lenient):
    """Improvement of a run through learning from readers' masks, measured by cross-validation (see `Rule`)."""

    weight: Number
    score_weight: Number
    threshold: Number
    spot: Number
    images: Count
    patients: Count
    folds: Count
    dice: Number | None
    base_dice: Number | None
    difference: Number | None
    interval: tuple[Number, Number] | None
    cases: tuple[tuple[Integer, Number, Number], ...]
    words: Text


class OldAndNew(Lenient):
    """Values of one measure for a run (`new`) and for the run that it is based on (`old`)."""

    old: Number | None
    new: Number | None
    difference: Number | None
    interval: tuple[Number, Number] | None
    images: Count
    enough: bool


class Comparison(Lenient):
    """Comparison of a run (`run`) with the run that it is based on (`base`)."""

    base: Name
    run: Name
    cases: Count
    left_out: Count
    against: Text = ""
    flags: dict[Literal["abnormal", "normal"], tuple[Count, Count, Count]] | None = None
    pictured: list[Count] = []
    measures: dict[Literal["auroc", "pixel_auroc", "dice", "pro"], OldAndNew]
    verdict: Literal["better", "worse", "mixed", "same", "few"]
    words: Text


class Erased(Lenient):
    """Erasure of cases from which a run had learned: their number and the time of the erasure."""

    cases: Count
    at: Text


class Summary(Thresholds):
    """Summary of a run's results, without scores of single cases. The entry `believe` (reliability) is not imported."""

    scored: Count | None = None
    score_seconds: Number | None = None
    calibration: Calibrations | None = None
    pixels: Pixels | None = None
    images: Count | None = None
    message: Text | None = None
    collapsed: bool | None = None
    rule: Gain | None = None
    comparison: Comparison | None = None
    erased: Erased | None = None
    report_peak_memory: Count | None = None


Interval95 = tuple[Number, Number] | None


class Conformal(Lenient):
    """Threshold with a guaranteed false alarm rate."""

    alpha: Number
    threshold: Number | None
    guarantee: Text
    caveat: Text | None
    held: Count
    needed: Count
    flagged: Count
    normals: Count


class Evaluation(Record):
    """Row of metrics. Additional keys have numbers, intervals, Booleans, short texts or None as values."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Number | Interval95 | bool | Annotated[str, Len(0, 400)] | None]

    roi: bool
    protocol: Name
    detector: Name
    encoder: Name | None
    run: Name | None
    conformal: Conformal | None = None
    five_groups: Any = None


class Marks(Lenient):
    """Annotations of readers from which a run learned (see `marks.chosen`)."""

    masks: list[Count]
    cases: list[Count]
    reader: Name | None = None
    others: dict[Name, list[Count]] = {}
    unfinished: list[Count] = []
    places: dict[Name, Text] = {}
    normals: list[Count] = []
    kinds: dict[Name, list[Count]] = {}
    sha256: Sha256


def kept(record: Record) -> dict[str, Any]:
    """Converts a record to a JSON value for storage; fields that were not set are omitted."""
    return record.model_dump(mode="json", exclude_unset=True)


def summary(values: Any, what: str) -> dict[str, Any]:
    """Checks a run's summary; returns its known fields. `what` names the summary in error messages."""
    return {name: value for name, value in kept(read(Summary, values, what)).items() if value is not None}


def settings(kind: str, method: str, values: Any, home: Home, runs: Mapping[str, str], what: str) -> dict[str, Any]:
    """Checks the settings of a run; returns them adapted to this installation, without readers' annotations.

    kind: Kind of the run, "pretrain" or "fit".
    runs: Ids of the runs that are imported at the same time, {old id: new id}.
    what: Name of the settings in error messages.
    Replaces paths of initial weights by paths in this home, which need not exist: of a run in `runs`, or of a file.
    """
    values = read(dict[str, Any], values, what)
    values = {key: value for key, value in values.items() if key != "marks"}
    values = _weights(values, home, runs)
    with refusing(what):
        if kind == "fit":
            read(Side, values.get("size", 16), f"{what}, size")
            if "base_run" in values:
                values["base_run"] = runs.get(values["base_run"], "")
            detector = DETECTORS.get(method)
            detector.Config.from_dict({key: value for key, value in values.items() if key != "size"})
            return values
        read(Side, values.get("size", 16), f"{what}, size")
        epochs = values.get("epochs", 0)
        config = PretrainConfig.from_dict({**values, "epochs": max(1, read(Count, epochs, f"{what}, epochs"))})
        OBJECTIVES.get(config.objective)
        STRONG.get(config.strong)
        return values


def _weights(value: Any, home: Home, runs: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            key: _start(inner, home, runs) if key in KEYS and isinstance(inner, str) else _weights(inner, home, runs)
            for key, inner in value.items()
        }
    return [_weights(inner, home, runs) for inner in value] if isinstance(value, list) else value


def _start(value: str, home: Home, runs: Mapping[str, str]) -> str:
    """Converts the name of initial weights to a path in this home, so that no foreign path is ever opened."""
    name = value.replace("\\", "/").rpartition("/")[2]
    if value in NAMES or not value:
        return value
    if name in runs:
        return str(home.runs / runs[name])
    return str(home.path / "weights" / (name if FILE.fullmatch(name) else "elsewhere.safetensors"))


def nameless(value: Any) -> Any:
    """Returns a JSON value in which absolute paths are replaced by their file names."""
    if isinstance(value, dict):
        return {key: nameless(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [nameless(inner) for inner in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def check_map(row: Mapping[str, Any]) -> None:
    """Checks that a packed heat map contains exactly map_h * map_w 16-bit values. Raises Refused otherwise."""
    height, width = row.get("map_h"), row.get("map_w")
    sides = [side for side in (height, width) if isinstance(side, int) and 0 < side <= LARGEST_MAP]
    if len(sides) < 2:
        raise Refused(f"the height and width of a heat map must be 1 to {LARGEST_MAP}")
    read(tuple[Number, Number], [row.get("map_lo"), row.get("map_hi")], "the range of a heat map")
    cells = sides[0] * sides[1]
    try:
        inflated = zlib.decompressobj().decompress(row["map"], 2 * cells + 1)
    except (zlib.error, TypeError):
        inflated = b""
    if len(inflated) != 2 * cells:
        raise Refused("the data of a heat map does not match its size")


def files_of(folder: Path) -> list[Path]:
    """Lists the relative paths of all files in an imported folder and its subfolders.

    Raises Refused if the folder contains a link, or a file that is neither JSON nor safetensors.
    """
    files = []
    for file in sorted(folder.rglob("*")):
        if file.is_symlink() or not (file.is_dir() or file.is_file()):
            raise Refused(f"{file.name[:80]!r} is neither a file nor a folder")
        if file.is_file():
            if file.suffix not in (".json", ".safetensors"):
                raise Refused(f"{file.name[:80]!r} is neither a .json nor a .safetensors file")
            files.append(file.relative_to(folder))
    return files
