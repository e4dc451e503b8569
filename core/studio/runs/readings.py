"""Stored scores of a run: rows of the table `readings`, each with score, percentile, flag and heat map of a case."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Any

import numpy as np

from core.engine.calibration.percentiles import Calibration, PixelScale
from core.engine.calibration.quantise import dequantise, quantise
from core.studio.db.store import Store, now
from core.studio.runs import records as runs
from core.studio.runs.operating import in_effect

OUTLINE = "outline"  # key in `extra`: level at which the heat map is outlined
NOT_JUDGED = "not_judged"  # key in `extra`: fraction of the image that is not judged
SCORED = "scored:"  # prefix of the setting with the time at which a study was last scored
MOST_EXTRAS = 16  # largest number of values per image and name in `extra`


def size_of(store: Store, run: dict) -> int:
    """Returns the side length in pixels of the images that a run uses.

    It is the `size` in the run's configuration or, for a detector run without it, the encoder's `fit_size` or `size`.
    """
    fit = run["kind"] == "fit"
    while "size" not in run["config"] and run["parent"]:
        run = runs.get_run(store, run["parent"])
    return int((fit and run["config"].get("fit_size")) or run["config"].get("size", 256))


def pixel_scale(run: dict) -> PixelScale:
    """Returns the scale of all heat maps of a run, with the settings of its outlines.

    The scale comes from held-out normal images. It starts at the median pixel and is twice as wide as their range, so
    that a normal image never reaches the upper half. If each map were scaled separately, every image would show red.
    """
    pixels = run["summary"].get("pixels")
    return PixelScale.of(pixels) if pixels else PixelScale(0.0, 1.0, 0.5)


def outline_level(row: dict, scale: PixelScale) -> float:
    """Returns the heat-map value at which lesions are outlined: the one stored in `row`, or else the run's."""
    return scale.threshold if row["outline"] is None else float(row["outline"])


def pack_map(heat: np.ndarray) -> dict:
    """Packs a heat map, float32 (h, w), into columns of the table `readings`.

    The columns are map (zlib of little-endian uint16), map_h, map_w, map_lo and map_hi.
    """
    codes, low, high = quantise(heat)
    data = zlib.compress(np.ascontiguousarray(codes, "<u2").tobytes(), 6)
    return {"map": data, "map_h": heat.shape[0], "map_w": heat.shape[1], "map_lo": low, "map_hi": high}


def unpack_map(reading: dict) -> np.ndarray:
    """Unpacks the heat map of a row of `readings`, float32 (h, w)."""
    codes = np.frombuffer(zlib.decompress(reading["map"]), "<u2").reshape(reading["map_h"], reading["map_w"])
    return dequantise(codes, reading["map_lo"], reading["map_hi"])


def unpack_not_judged(reading: dict) -> np.ndarray:
    """Unpacks the mask of pixels that are not judged because normal images show nothing there, bool (h, w)."""
    shape = reading["map_h"], reading["map_w"]
    if reading["not_judged"] is None:
        return np.zeros(shape, bool)
    packed = zlib.decompressobj().decompress(reading["not_judged"], -(-shape[0] * shape[1] // 8))
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=shape[0] * shape[1]).reshape(shape).astype(bool)


def change_stamps(store: Store) -> dict[str, str]:
    """Returns {study id: text}; the text changes whenever a run of the study changes or a score is stored."""
    runs_by_study: dict[str, list] = {}
    for row in store.query("SELECT study, id, name, status, note, archived, binned FROM runs ORDER BY id"):
        runs_by_study.setdefault(row["study"], []).append(list(row.values()))
    digests = {
        study: hashlib.blake2b(repr(rows).encode(), digest_size=8).hexdigest() for study, rows in runs_by_study.items()
    }
    return {study: f"{digest} {store.setting(SCORED + study, '')}" for study, digest in digests.items()}


def reading_rows(
    store: Store,
    run_id: str,
    case_ids: np.ndarray,
    maps: np.ndarray,
    scores: dict[str, np.ndarray],
    calibrations: dict[str, Calibration],
    extras: dict[str, np.ndarray],
    not_judged: np.ndarray | None = None,
) -> list[dict]:
    """Builds one row of the table `readings` per case, flagged by the current operating point of the run.

    scores: Scores (N,) under the keys "plain" (whole image) and "roi" (region of interest), as in `calibrations`.
    extras: Additional values of each image by name; arrays with many values per image are not stored.
    not_judged: Pixels of the heat maps that are not judged (see `outlines.not_judged`), bool (N, h, w), or None.
    """
    columns, point = {}, in_effect(store, run_id)[run_id]
    for kind, ending in (("plain", ""), ("roi", "_roi")):
        calibration, values = calibrations[kind], scores[kind]
        columns[f"score{ending}"] = values
        columns[f"percentile{ending}"] = np.asarray(calibration.percentile(values))
        columns[f"flagged{ending}"] = point.flagged(values, columns[f"percentile{ending}"])
    rows = []
    for i, case_id in enumerate(case_ids):  # packed before the database is locked, so that no other writer waits
        row = {"run": run_id, "case_id": int(case_id), "created": now(), **pack_map(maps[i])}
        row |= {name: (bool(v[i]) if v.dtype == bool else float(v[i])) for name, v in columns.items()}
        # Terms of the image's score. Larger values are maps, which are already in `map`.
        small = {name: v[i].tolist() for name, v in extras.items() if v[i].size <= MOST_EXTRAS}
        hidden = None if not_judged is None or not not_judged[i].any() else not_judged[i]
        row["not_judged"] = None if hidden is None else zlib.compress(np.packbits(hidden).tobytes())
        small |= {} if hidden is None else {NOT_JUDGED: round(float(hidden.mean()), 4)}
        rows.append({**row, "extra": json.dumps(small)})
    return rows


def write_readings(store: Store, rows: list[dict]) -> None:
    """Stores rows, replacing those of the same run and case, and records the time of the study's latest score."""
    with store.write() as db:
        db.table("readings").insert_all(rows, pk=("run", "case_id"), replace=True)
        for run in {row["run"] for row in rows}:
            store.set_setting(SCORED + runs.get_run(store, run)["study"], now())


def add_extra(store: Store, run_id: str, name: str, values: dict[int, Any]) -> None:
    """Stores `values`, {case id: JSON value}, under the key `name` in the field `extra` of a run's scores."""
    change = f"UPDATE readings SET extra = json_set(extra, '$.{name}', json(?)) WHERE run = ? AND case_id = ?"
    with store.write() as db:
        db.conn.executemany(change, [[json.dumps(value), run_id, case_id] for case_id, value in values.items()])


def read_scores(store: Store, run_id: str, case_ids: np.ndarray, roi: bool) -> np.ndarray:
    """Reads a run's scores of the given cases, float64 (N,). Raises ValueError if a case has no score."""
    column = "score_roi" if roi else "score"
    scores = {
        r["case_id"]: r["s"]
        for r in store.query(f"SELECT case_id, {column} AS s FROM readings WHERE run = ?", [run_id])
    }
    missing = [int(c) for c in case_ids if scores.get(int(c)) is None]
    if missing:
        raise ValueError(f"{run_id} has not scored {len(missing)} of the {len(case_ids)} cases: score the study first")
    return np.array([scores[int(c)] for c in case_ids])


def stored_map(store: Store, run_id: str, case_id: int) -> dict:
    """Reads a stored heat map in packed columns (see `pack_map`), with `not_judged`, `created` and `outline`.

    Raises ValueError if the run has no heat map of the case.
    """
    query = (
        "SELECT map, map_h, map_w, map_lo, map_hi, not_judged, created, json_extract(extra, '$.outline') AS outline "
    )
    query += "FROM readings WHERE run = ? AND case_id = ?"
    row = store.one(query + " AND map IS NOT NULL", [run_id, case_id])
    if row is None:
        raise ValueError("This run has no heat map of the case: score the study with it first.")
    return row


def read_maps(store: Store, run_id: str, case_ids: np.ndarray) -> np.ndarray:
    """Reads a run's heat maps of the cases, in the order of `case_ids`, float32 (N, h, w)."""
    maps = []
    for case_id in case_ids:
        query = "SELECT map, map_h, map_w, map_lo, map_hi FROM readings WHERE run = ? AND case_id = ?"
        maps.append(unpack_map(store.first(query, [run_id, int(case_id)])))
    return np.stack(maps)


class StoredMaps:
    """Heat maps of a run for one or more cases, float32 (N, h, w), loaded lazily when they are indexed."""

    def __init__(self, store: Store, run_id: str, case_ids: np.ndarray) -> None:
        self._store, self._run, self._ids = store, run_id, case_ids
        self.shape = (len(case_ids), *read_maps(store, run_id, case_ids[:1]).shape[1:])

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: slice | np.ndarray) -> np.ndarray:
        cases = self._ids[index]
        none = np.zeros((0, *self.shape[1:]), np.float32)  # for an empty index, if no image of a block has a lesion
        return read_maps(self._store, self._run, cases) if len(cases) else none
