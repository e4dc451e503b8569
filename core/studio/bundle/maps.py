"""Exports and imports cluster maps: their coordinates, points and features. On import, keys and case ids are replaced.

Images that were projected into a map are not exported, because they may belong to other studies.
"""

from __future__ import annotations

import json
import re
import secrets
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from core.studio.bundle.contents import Ids
from core.studio.db.foreign import Refused
from core.studio.db.store import Store

_MAP = ("map.json", "coords.npy")
_POINTS = ("about.json", "points.npz", "mixed.npy", "mixed_masks.npy")
_ABOUT = ("config", "run_name", "groups", "size", "epochs", "seconds")
_SNAPSHOT = re.compile(r"runs/([^/]+)((?:/epochs/\d+)?)")
_LARGEST = 1 << 30  # largest unpacked size of a compressed array file in bytes


def files_of(store: Store, study: str) -> tuple[list[tuple[Path, str]], list[str]]:
    """Returns a study's map files as [(file, name in the bundle)], and the keys of the maps whose files are missing."""
    root = store.home.clusters
    files: dict[str, Path] = {}
    missing = []
    for row in store.query("SELECT key FROM cluster_maps WHERE study = ? ORDER BY created, rowid", [study]):
        folder = root / "maps" / row["key"]
        facts = json.loads((folder / "map.json").read_text()) if (folder / "map.json").is_file() else None
        points = root / "points" / facts["points_key"] if facts else folder
        if facts is None or not (points / "about.json").is_file():
            missing.append(row["key"])
            continue
        map_files = [folder / name for name in _MAP] + [points / name for name in _POINTS]
        map_files += [root / "features" / f"{epoch['features_key']}.npy" for epoch in facts["epochs"]]
        files |= {f"clusters/{file.relative_to(root).as_posix()}": file for file in map_files if file.is_file()}
    return [(file, name) for name, file in files.items()], missing


def adopt(store: Store, staged: Path, ids: Ids) -> tuple[list[tuple[Path, Path]], list[str]]:
    """Replaces the ids in unpacked maps; returns [(staged path, final path)] and the old keys of maps without files.

    Rows of maps without files are deleted again. Raises Refused if a map is damaged or does not fit the study.
    """
    root, home = staged / "clusters", store.home.clusters
    moves: list[tuple[Path, Path]] = []
    points: dict[str, tuple[str, int]] = {}  # new key and number of points by old key
    features: dict[str, str] = {}
    missing = []
    for old, new in ids.of("cluster_maps").items():
        folder = root / "maps" / old
        if not old.isalnum() or not (folder / "map.json").is_file():
            store.db.execute("DELETE FROM cluster_maps WHERE key = ?", [new])
            missing.append(old)
            continue
        try:
            facts = json.loads((folder / "map.json").read_text())
            key = facts["points_key"]
            if key not in points:
                points[key] = secrets.token_hex(10), _adopt_points(root / "points" / _plain(key), ids)
                moves.append((root / "points" / key, home / "points" / points[key][0]))
            for epoch in facts["epochs"]:
                name = _plain(epoch["features_key"])
                if name not in features:
                    features[name] = secrets.token_hex(12)
                    if (root / "features" / f"{name}.npy").is_file():
                        moves.append((root / "features" / f"{name}.npy", home / "features" / f"{features[name]}.npy"))
            _check_coords(folder, len(facts["epochs"]), points[key][1])
            description = _about(facts, ids) | {"points_key": points[key][0]}
            for epoch in description["epochs"]:
                epoch["features_key"] = features[epoch["features_key"]]
            (folder / "map.json").write_text(json.dumps(description))
        except Refused:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, OSError, MemoryError, RecursionError) as error:
            raise Refused(f"the bundle's map {old[:40]!r} is damaged ({type(error).__name__})") from None
        moves.append((folder, home / "maps" / new))
    return moves, missing


def _plain(key: Any) -> str:
    if not isinstance(key, str) or not key.isalnum() or len(key) > 64:
        raise Refused("a map in the bundle has files with invalid names")
    return key


def _about(facts: dict, ids: Ids) -> dict:
    known_facts = {name: ids.renamed(facts[name]) for name in _ABOUT}
    for epoch in known_facts["epochs"]:
        where = _SNAPSHOT.fullmatch(epoch["snapshot"])
        if where is None or where[1] not in ids.of("runs") or not isinstance(epoch["epoch"], int):
            raise Refused("a map in the bundle uses an encoder that is not in the bundle")
        epoch["snapshot"] = f"runs/{ids.of('runs')[where[1]]}{where[2]}"
    return known_facts | {"run": ids.of("runs")[facts["run"]], "study": ids.study}


def _arrays(file: Path) -> dict[str, np.ndarray]:
    """Reads all arrays of an .npz file. Raises Refused if they are larger than any map needs."""
    with zipfile.ZipFile(file) as packed:
        if sum(i.file_size for i in packed.infolist()) > _LARGEST:
            raise Refused(f"a map in the bundle is too large: at most {_LARGEST:,} bytes are allowed")
    with np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _adopt_points(folder: Path, ids: Ids) -> int:
    columns = _arrays(folder / "points.npz")
    count = len(columns["case_id"])
    if any(c.shape != (count,) or c.dtype != np.int64 for c in columns.values()):
        raise Refused("the points of a map in the bundle are not columns of whole numbers")
    columns["case_id"] = np.array([ids.of("cases")[int(c)] for c in columns["case_id"]], np.int64)
    np.savez(folder / "points.npz", **columns)  # type: ignore[arg-type]
    facts = json.loads((folder / "about.json").read_text())
    new_facts: dict[str, Any] = {
        "study": ids.study,
        "size": int(facts["size"]),
        "groups": [str(g) for g in facts["groups"]],
    }
    (folder / "about.json").write_text(json.dumps(new_facts))
    mixed = int(columns["mixed"].max(initial=-1)) + 1
    if mixed:
        images = np.load(folder / "mixed.npy", mmap_mode="r", allow_pickle=False)
        masks = np.load(folder / "mixed_masks.npy", mmap_mode="r", allow_pickle=False)
        side = new_facts["size"]
        if images.shape[1:] != (side, side, 3) or images.dtype != np.uint8 or min(len(images), len(masks)) < mixed:
            raise Refused("the MedMix images of a map in the bundle have the wrong size")
    if not np.isin(columns["group"], range(len(new_facts["groups"]))).all():
        raise Refused("the points of a map in the bundle have unknown classes")
    return count


def _check_coords(folder: Path, epochs: int, points: int) -> None:
    """Raises Refused unless the coordinates are float32 `(epochs, points, 2)`."""
    coords = np.load(folder / "coords.npy", mmap_mode="r", allow_pickle=False)
    if coords.shape != (epochs, points, 2) or coords.dtype != np.float32:
        raise Refused("the coordinates of a map in the bundle do not match its points")
