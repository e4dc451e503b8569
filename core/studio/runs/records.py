"""Runs, which pre-train an encoder or fit a detector, each with its configuration, folder, metrics and log."""

from __future__ import annotations

import functools
import json
import platform
import re
import secrets
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from core.studio.db.store import NotFound, Store, now, parsed

_JSON = ("config", "packages", "summary")
_PACKAGES = (
    "torch",
    "torchvision",
    "timm",
    "numpy",
    "opencv-python",
    "scikit-learn",
    "safetensors",
    "pillow",
    "pydicom",
)
_EDITABLE = {
    "name", "status", "finished", "seconds", "device", "note", "archived", "summary", "parent", "config", "method",
}  # fmt: skip


@functools.cache
def code_version() -> str:
    """Returns the current commit's short hash, followed by '+' if files were changed, or '' outside a Git clone."""
    root = Path(__file__).resolve().parents[3]
    try:
        line = ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--exclude=*"]
        return subprocess.run(line, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


@functools.cache
def version() -> str:
    """Returns the version of the studio, or "unknown"."""
    try:
        return metadata.version("pmsacl-studio")
    except metadata.PackageNotFoundError:
        file = Path(__file__).resolve().parents[3] / "pyproject.toml"
        match = re.search(r'^version = "(.+)"', file.read_text(), re.M) if file.exists() else None
        return match[1] if match else "unknown"


@functools.cache
def package_versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages on which results depend."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def create_run(
    store: Store, study: str, kind: str, method: str, config: dict, parent: str | None = None, name: str | None = None
) -> str:
    """Creates a run (status 'new') and its folder; returns its id. A detector run's `parent` is its encoder's run."""
    if store.one("SELECT 1 FROM studies WHERE id = ?", [study]) is None:
        raise NotFound(f"unknown study {study!r}")
    if parent is not None and get_run(store, parent)["kind"] != "pretrain":
        raise ValueError(f"{parent} is not a pre-training run: choose one as the parent of a fit")
    run_id = f"{method}-{secrets.token_hex(4)}"
    folder = store.home.runs / run_id
    with store.write() as db:
        count = db.execute("SELECT count(*) FROM runs WHERE study = ? AND method = ?", [study, method]).fetchone()[0]
        db.table("runs").insert(
            {
                "id": run_id,
                "study": study,
                "kind": kind,
                "name": name or f"{method} {count + 1}",
                "parent": parent,
                "method": method,
                "config": json.dumps(config),
                "folder": f"runs/{run_id}",
                "created": now(),
                "code": code_version(),
                "packages": json.dumps(package_versions()),
            }
        )
    folder.mkdir(parents=True, exist_ok=True)
    return run_id


def get_run(store: Store, run_id: str) -> dict:
    """Returns a run's row with its JSON columns parsed. Raises NotFound for an unknown id."""
    row = store.one("SELECT * FROM runs WHERE id = ?", [run_id])
    if row is None:
        latest = [r["id"] for r in store.query("SELECT id FROM runs ORDER BY created DESC, rowid DESC LIMIT 8")]
        raise NotFound(f"unknown run {run_id!r}; the latest runs are: {', '.join(latest) or 'none yet'}")
    return parsed(row, *_JSON)


def exists(store: Store, run_id: str) -> bool:
    """Returns whether a run with this id exists."""
    return store.one("SELECT 1 FROM runs WHERE id = ?", [run_id]) is not None


def list_runs(
    store: Store, study: str | None = None, kind: str | None = None, archived: bool | None = False
) -> list[dict]:
    """Lists runs that are not in the bin, oldest first.

    archived: True for archived runs only, False for runs that are not archived, None for both.
    """
    where, params = ["1"], list[Any]()
    for column, value in (("study", study), ("kind", kind)):
        if value is not None:
            where.append(f"{column} = ?")
            params.append(value)
    where.append("binned IS NULL")
    if archived is not None:
        where.append("archived = ?")
        params.append(int(archived))
    rows = store.query(f"SELECT * FROM runs WHERE {' AND '.join(where)} ORDER BY created, id", params)
    return [parsed(row, *_JSON) for row in rows]


def update_run(store: Store, run_id: str, **changes: Any) -> None:
    """Changes columns of a run. Raises ValueError for a read-only column, or the configuration of a started run."""
    unknown = set(changes) - _EDITABLE
    if unknown:
        raise ValueError(f"a run's {', '.join(sorted(unknown))} cannot be changed")
    with store.write() as db:
        run = get_run(store, run_id)
        if {"config", "method", "parent"} & set(changes) and run["status"] not in ("new", "queued"):
            raise ValueError(f"{run_id} has started: clone it to change its configuration")
        values = {k: json.dumps(v) if k in _JSON else v for k, v in changes.items()}
        db.table("runs").update(run_id, values)


def clone_run(store: Store, run_id: str, name: str | None = None, **changes: Any) -> str:
    """Creates a copy of a run, with `changes` to the top-level keys of its configuration; returns the copy's id."""
    run = get_run(store, run_id)
    config = {**run["config"], **changes}
    return create_run(store, run["study"], run["kind"], run["method"], config, run["parent"], name)


def settings_of(config: dict[str, Any]) -> dict[str, Any]:
    """Returns a run's configuration without the readers' annotations that the studio adds to it."""
    return {key: value for key, value in config.items() if key != "marks"}


def dotted(settings: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Flattens nested settings to {name: value} in the same order; {"head": {"lr": 1}} becomes {"head.lr": 1}."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= dotted(value, f"{before}{key}.") if isinstance(value, dict) else {before + key: value}
    return flat


def marks_count(run: dict) -> int:
    """Returns the number of masks that a run learned from; 0 for an imported run, whose number is unknown."""
    return len((run["config"].get("marks") or {}).get("masks", []))


def children(store: Store, run_id: str) -> list[str]:
    """Lists the ids of the detector runs that were fitted on the encoder of run `run_id`."""
    return [r["id"] for r in store.query("SELECT id FROM runs WHERE parent = ?", [run_id])]


def run_folder(store: Store, run_id: str) -> Path:
    """Returns the folder of a run's files."""
    return store.home.path / get_run(store, run_id)["folder"]


def folder_bytes(store: Store, run_id: str) -> int:
    """Computes the size of a run's folder in bytes."""
    return sum(f.stat().st_size for f in run_folder(store, run_id).rglob("*") if f.is_file())


def delete_run(store: Store, run_id: str) -> int:
    """Deletes a run with its metrics, scores and files; returns the number of freed bytes.

    Raises ValueError if the run is running, or if detector runs were fitted on it.
    """
    run = get_run(store, run_id)
    if run["status"] == "running":
        raise ValueError(f"{run_id} is running: cancel it first")
    fits = children(store, run_id)
    if fits:
        raise ValueError(f"{run_id} is the encoder of {', '.join(fits)}: delete them first, or archive it")
    freed = folder_bytes(store, run_id)
    store.execute("DELETE FROM runs WHERE id = ?", [run_id])
    shutil.rmtree(store.home.path / run["folder"], ignore_errors=True)
    return freed
