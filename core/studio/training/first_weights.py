"""The list of weights files from which users may start training on the page. Administrators add files to this list.

If a file is added with the name of its backbone, training runs that start from the file use this backbone. For every
path that is not on the list, readers get the same error, which reveals nothing about the machine's disk.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from core.engine.backbones.config import EncoderConfig, note_of
from core.engine.config import BadConfig
from core.engine.files import file_sha256, replacing
from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.ingest.roots import Within
from core.studio.runs.weights import FILE, KEYS, NAMES


def folder_of(store: Store) -> Path:
    """Returns the folder of the weights files that administrators have added."""
    return store.home.path / "weights"


def listed(store: Store) -> list[str]:
    """Returns the names of allowed initial weights: those in NAMES, then those of the added weights files."""
    return [*NAMES, *sorted(file.name for file in folder_of(store).glob("*") if FILE.fullmatch(file.name))]


def add(store: Store, file: Path, by: str, arch: str = "", licence: str = "") -> dict[str, str]:
    """Copies a weights file into the home and adds it to the list; returns {name, arch, licence, sha256}.

    arch: Backbone that the weights must fit, or "" if each training run chooses its own backbone.
    Raises ValueError if the file's name is invalid or already on the list, or if the weights are unreadable or do not
    fit the backbone. Raises BadConfig if the backbone is unknown.
    """
    from core.engine.backbones import weights
    from core.engine.backbones.encoder import build_encoder

    if not FILE.fullmatch(file.name):
        raise ValueError(
            f"{file.name}: weights files end in .pth, .pt, .safetensors or .npz; names have letters, digits, . _ and -"
        )
    if arch:
        build_encoder(EncoderConfig(arch=arch, init=str(file)))
    else:
        weights.from_path(file)
    folder_of(store).mkdir(mode=0o700, exist_ok=True)
    with replacing(folder_of(store) / file.name) as copied:
        if file.name in listed(store):
            raise ValueError(f"{file.name} is already on the list: give the file another name")
        shutil.copyfile(file, copied)
        noted = {"arch": arch, "licence": licence, "sha256": file_sha256(copied)}
        note_of(copied).write_text(json.dumps(noted))
    with store.write():
        audit.record(store, by, "weights", after=file.name)
    return {"name": file.name, **noted}


def noted(store: Store, name: str) -> dict[str, str]:
    """Returns {arch, licence, sha256} as stored when a weights file was added, or {} if nothing was stored."""
    try:
        notes: dict[str, str] = json.loads(note_of(folder_of(store) / name).read_text())
    except (OSError, ValueError):
        return {}
    return notes


def chosen(store: Store, init: str, arch: str | None) -> dict[str, str]:
    """Returns the encoder settings {init, arch} for a user who may read any file, with init resolved to a path.

    init: Name of listed weights, id of an encoder's run, or path.
    In the result, arch is omitted if `arch` is None and no backbone is stored for the weights.
    """
    chosen_init: dict[str, str] = resolve_weights(
        store, {"init": init, **({"arch": arch} if arch else {})}, Within(None)
    )
    return chosen_init


def archs(store: Store) -> dict[str, str]:
    """Returns {name: backbone} of the weights files that were added with the name of a backbone."""
    return {name: arch for name in listed(store)[len(NAMES) :] if (arch := noted(store, name).get("arch"))}


def remove(store: Store, name: str, by: str) -> None:
    """Removes a weights file from the list; keeps the runs that used it. Raises ValueError for an unknown name."""
    if name in NAMES or name not in listed(store):
        raise ValueError(f"{name!r} was not added; choose from: {', '.join(listed(store)[len(NAMES) :]) or 'none'}")
    file = folder_of(store) / name
    for path in (file, note_of(file)):
        path.unlink(missing_ok=True)
    with store.write():
        audit.record(store, by, "weights", before=name)


def resolve_weights(store: Store, config: Any, files: Within | None) -> Any:
    """Returns `config` with the names of listed weights files, and the ids of encoder runs, replaced by paths.

    If `config` names no backbone, the backbone with which the weights file was added is filled in.
    files: Further files that are allowed (for administrators). None allows only listed weights and encoder runs.
    Raises BadConfig if the weights are not allowed, or if the backbone differs from that of the weights file.
    """
    if isinstance(config, dict):
        init = config.get("init")
        name = Path(init).name if isinstance(init, str) else ""
        brought = archs(store).get(name) if name else None
        if brought and _path(store, str(init), files) == str(folder_of(store) / name):
            config = {"arch": brought, **config}
            if config["arch"] != brought:
                raise BadConfig(f"arch: {name} holds weights of {brought}, not of {config['arch']}")
        return {
            key: _path(store, value, files)
            if key in KEYS and isinstance(value, str)
            else resolve_weights(store, value, files)
            for key, value in config.items()
        }
    return [resolve_weights(store, value, files) for value in config] if isinstance(config, list) else config


def _path(store: Store, value: str, files: Within | None) -> str:
    if value in NAMES or not value:
        return value
    if value in listed(store):
        return str(folder_of(store) / value)
    query = "SELECT id, folder FROM runs WHERE kind = 'pretrain' AND binned IS NULL"
    run_folders = {run["id"]: str(store.home.path / run["folder"]) for run in store.query(query) if run["folder"]}
    if value in run_folders:
        return run_folders[value]
    known_paths = {*run_folders.values(), *(str(folder_of(store) / name) for name in listed(store)[len(NAMES) :])}
    if value in known_paths:
        return value
    if files is not None and "\0" not in value and files.holds(Path(value).expanduser().absolute()):
        return value
    raise BadConfig(
        f"an encoder starts from {', '.join(listed(store))} or the id of an encoder's run; an administrator can add a "
        "weights file with `weights add FILE`, or use a file in a folder that may be imported from"
    )
