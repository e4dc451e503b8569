"""The files that a training or a fit writes into its run's folder: weights, sealed when they are written and checked
before use, saved encoders by epoch, and the allowed names of initial weights.
"""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from core.engine.files import file_sha256
from core.studio.db import seals
from core.studio.db.store import Row, Store
from core.studio.runs import records as runs

KINDS = ("*.safetensors", "*.npz", "*.npy", "*.json")
NAMES = ("random", "imagenet", "auto")  # initial weights other than files
KEYS = ("init", "local_encoder")  # options of initial weights, at any depth of a configuration
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.(safetensors|pth|pt|npz)")  # name of a file on the list
LEFT_OUT = ("partial", "epochs")  # folders of a run that scoring does not need
STATE = ("checkpoint", "process.json")  # prefixes of files of running work, which change all the time


def files(folder: Path) -> list[Path]:
    """Lists a folder's weights and the files that describe them, at any depth, without the state of running work."""
    paths = (file for kind in KINDS for file in folder.rglob(kind))
    return sorted(f for f in paths if not f.name.startswith((*STATE, ".")))


def there(store: Store, run_id: str) -> bool:
    """Returns whether a run's files are in this home; a bundle need not contain them."""
    return bool(files(runs.run_folder(store, run_id)))


def digest(folder: Path) -> str:
    """Computes the SHA-256 over the digests of a fitted run's weights, the same in its folder and after an export.

    It is "" without weights.
    """
    weights = [
        f for f in files(folder) if f.suffix == ".safetensors" and not {*f.relative_to(folder).parts} & {*LEFT_OUT}
    ]
    return hashlib.sha256("".join(map(file_sha256, weights)).encode()).hexdigest() if weights else ""


def seal(folder: Path) -> None:
    """Seals the files that a finished step has written."""
    for file in files(folder):
        seals.seal(file)


def problems(folder: Path, full: bool = False) -> list[str]:
    """Lists the problems of a run's files. Files of versions before 0.2 have no seals and are not checked."""
    return seals.problems(_sealed(folder), full)


def _sealed(folder: Path) -> list[Path]:
    return sorted(s.with_name(s.name.removesuffix(seals.SUFFIX)) for s in folder.rglob(f"*{seals.SUFFIX}"))


def check(store: Store, run_id: str) -> None:
    """Raises Damaged if the run's files were changed or are missing. Encoders saved at each epoch are only checked when
    they are loaded."""
    folder = runs.run_folder(store, run_id)
    if not there(store, run_id):
        run = runs.get_run(store, run_id)
        raise seals.Damaged(f"“{run['name']}” came without its weights: repeat that run in Training, or train another")
    damages = seals.problems((f for f in _sealed(folder) if "epochs" not in f.relative_to(folder).parts), full=True)
    if damages:
        raise seals.Damaged(sentence(runs.get_run(store, run_id), damages[0]))


def sentence(run: Row, problem: str) -> str:
    """Returns a sentence on the damage of a run's files and what to do."""
    subject = "the encoder" if run["kind"] == "pretrain" else "the detector"
    return f"{subject} {run['id']} is damaged ({problem}): repeat that run, or bring its files back from a backup"


@dataclass(frozen=True)
class Snapshot:
    """The encoder that a run saved at an epoch."""

    epoch: int
    folder: Path

    @property
    def digest(self) -> str:
        """Digest of the encoder's weights and centres."""
        return "".join(_digest(f, f.stat().st_mtime_ns) for f in sorted(self.folder.glob("*.safetensors")))


@functools.lru_cache(4096)
def _digest(file: Path, changed: int) -> str:
    return file_sha256(file)[:16]


def encoder_run(store: Store, run_id: str) -> dict:
    """Returns the run if it is a pre-training, else the pre-training of its encoder. Raises ValueError without one."""
    run = runs.get_run(store, run_id)
    if run["kind"] == "pretrain":
        return run
    if run["parent"] is None:
        raise ValueError(f"run {run_id} was fitted on no encoder of this home: choose a pre-training run")
    return runs.get_run(store, run["parent"])


def snapshots(store: Store, run: dict) -> list[Snapshot]:
    """Lists the saved encoders of a pre-training run by epoch; epoch 0 is untrained. Empty before one is saved."""
    folder = store.home.path / run["folder"]
    snapshots_listed = [
        Snapshot(int(file.parent.name), file.parent)
        for file in sorted((folder / "epochs").glob("*/encoder.json"))
        if file.parent.name.isdigit()
    ]
    if not snapshots_listed and (folder / "encoder.json").exists():
        snapshots_listed = [Snapshot(0, folder)]
    return snapshots_listed
