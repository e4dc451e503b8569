"""Which weights a training asked for on the page may begin with: those of a list, which administrators add files to.

A reader's answer is the same for a file that is there, one that is not and a folder: the machine's disk is not asked.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from core.engine.config import BadConfig
from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.ingest.roots import Within

NAMES = ("random", "imagenet", "auto")
KEYS = ("init", "local_encoder")  # of a configuration, at any depth: what names weights
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.(safetensors|pth|pt)")


def folder_of(store: Store) -> Path:
    """Names the folder of the weights that were added to the list."""
    return store.home.path / "weights"


def listed(store: Store) -> list[str]:
    """NAMES, then the files that were added, by name."""
    return [*NAMES, *sorted(file.name for file in folder_of(store).glob("*") if _FILE.fullmatch(file.name))]


def add(store: Store, file: Path, by: str) -> str:
    """Copy a weights file into the home and onto the list; its name there. ValueError if it cannot be read as one."""
    from core.engine.backbones.weights import from_path

    if not _FILE.fullmatch(file.name):
        raise ValueError(
            f"{file.name}: weights are .pth, .pt or .safetensors files named in letters, digits, . _ and -"
        )
    if file.name in listed(store):
        raise ValueError(f"{file.name} is on the list already: give the file another name")
    from_path(file)
    folder_of(store).mkdir(mode=0o700, exist_ok=True)
    place = folder_of(store) / file.name
    partial = place.with_suffix(".partial")
    try:
        shutil.copyfile(file, partial)
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)
    with store.write():
        audit.record(store, by, "weights", after=file.name)
    return file.name


def remove(store: Store, name: str, by: str) -> None:
    """Take a file from the list; runs that began with it stay. ValueError if it is not on it."""
    if name in NAMES or name not in listed(store):
        raise ValueError(f"{name!r} was not added; there are: {', '.join(listed(store)[len(NAMES) :]) or 'none'}")
    (folder_of(store) / name).unlink(missing_ok=True)
    with store.write():
        audit.record(store, by, "weights", before=name)


def settled(store: Store, config: Any, files: Within | None) -> Any:
    """`config` with names of the list, and ids of encoders' runs, as the paths that they stand for.

    files: where else a file may lie, for administrators; None for readers, who choose from the list. Raises BadConfig
    for any other value, without looking at the disk.
    """
    if isinstance(config, dict):
        return {
            key: _path(store, value, files) if key in KEYS and isinstance(value, str) else settled(store, value, files)
            for key, value in config.items()
        }
    return [settled(store, value, files) for value in config] if isinstance(config, list) else config


def _path(store: Store, value: str, files: Within | None) -> str:
    if value in NAMES or not value:
        return value
    if value in listed(store):
        return str(folder_of(store) / value)
    query = "SELECT id, folder FROM runs WHERE kind = 'pretrain' AND binned IS NULL"
    ours = {run["id"]: str(store.home.path / run["folder"]) for run in store.query(query) if run["folder"]}
    if value in ours:
        return ours[value]
    own = {*ours.values(), *(str(folder_of(store) / name) for name in listed(store)[len(NAMES) :])}
    if value in own:
        return value
    if files is not None and "\0" not in value and files.holds(Path(value).expanduser().absolute()):
        return value
    raise BadConfig(
        f"an encoder starts from {', '.join(listed(store))} or the id of an encoder's run: "
        "an administrator adds a weights file by `weights add FILE`, or names one of a folder that may be imported from"
    )
