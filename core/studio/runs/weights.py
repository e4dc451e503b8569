"""Weights files in the folders of runs. Hashes are stored when they are written and checked before use. Also lists the
encoders that a run saved at each epoch, and the allowed names of initial weights."""

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
KEYS = ("init", "local_encoder")  # options for initial weights, at any depth of a configuration
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.(safetensors|pth|pt|npz)")  # file name of initial weights
LEFT_OUT = ("partial", "epochs")  # folders of a run that are not needed for scoring
STATE = ("checkpoint", "process.json")  # prefixes of files that change while a run is running


def files(folder: Path) -> list[Path]:
    """Lists weights and their descriptions in a folder and its subfolders, without a job's temporary files."""
    paths = (file for kind in KINDS for file in folder.rglob(kind))
    return sorted(f for f in paths if not f.name.startswith((*STATE, ".")))


def has_weights(store: Store, run_id: str) -> bool:
    """Returns whether a run's weights are in this home; an imported bundle may lack them."""
    return bool(files(runs.run_folder(store, run_id)))


def digest(folder: Path) -> str:
    """Computes the SHA-256 over the digests of a detector's weights; returns "" without weights.

    The digest is the same in the run's folder and in an exported folder.
    """
    weights = [
        f for f in files(folder) if f.suffix == ".safetensors" and not {*f.relative_to(folder).parts} & {*LEFT_OUT}
    ]
    return hashlib.sha256("".join(map(file_sha256, weights)).encode()).hexdigest() if weights else ""


def seal(folder: Path) -> None:
    """Stores hashes of the files in a run's folder, so that later changes can be detected."""
    for file in files(folder):
        seals.seal(file)


def problems(folder: Path, full: bool = False) -> list[str]:
    """Lists missing and changed files of a run's folder. Files from before version 0.2 have no hashes to check."""
    return seals.problems(_sealed(folder), full)


def _sealed(folder: Path) -> list[Path]:
    return sorted(s.with_name(s.name.removesuffix(seals.SUFFIX)) for s in folder.rglob(f"*{seals.SUFFIX}"))


def check(store: Store, run_id: str) -> None:
    """Raises Damaged if the run's weights are missing or were changed.

    Encoders that were saved at each epoch are checked only when they are loaded.
    """
    folder = runs.run_folder(store, run_id)
    if not has_weights(store, run_id):
        run = runs.get_run(store, run_id)
        raise seals.Damaged(f"“{run['name']}” was imported without weights: repeat it in Training or choose another")
    damages = seals.problems((f for f in _sealed(folder) if "epochs" not in f.relative_to(folder).parts), full=True)
    if damages:
        raise seals.Damaged(sentence(runs.get_run(store, run_id), damages[0]))


def sentence(run: Row, problem: str) -> str:
    """Returns a sentence that describes the damage to a run's files and says what to do."""
    subject = "the encoder" if run["kind"] == "pretrain" else "the detector"
    return f"{subject} {run['id']} is damaged ({problem}): repeat the run, or restore its files from a backup"


@dataclass(frozen=True)
class Snapshot:
    """Encoder that a run saved at an epoch."""

    epoch: int
    folder: Path

    @property
    def digest(self) -> str:
        """Digest of the encoder's weights and class centres."""
        return "".join(_digest(f, f.stat().st_mtime_ns) for f in sorted(self.folder.glob("*.safetensors")))


@functools.lru_cache(4096)
def _digest(file: Path, changed: int) -> str:
    return file_sha256(file)[:16]


def encoder_run(store: Store, run_id: str) -> dict:
    """Returns the run of a detector run's encoder, or a pre-training run itself. Raises ValueError if there is none."""
    run = runs.get_run(store, run_id)
    if run["kind"] == "pretrain":
        return run
    if run["parent"] is None:
        raise ValueError(f"run {run_id} has no encoder in this home: choose a pre-training run")
    return runs.get_run(store, run["parent"])


def snapshots(store: Store, run: dict) -> list[Snapshot]:
    """Lists the saved encoders of a pre-training run in order of epoch; epoch 0 is the untrained encoder."""
    folder = store.home.path / run["folder"]
    snapshots_listed = [
        Snapshot(int(file.parent.name), file.parent)
        for file in sorted((folder / "epochs").glob("*/encoder.json"))
        if file.parent.name.isdigit()
    ]
    if not snapshots_listed and (folder / "encoder.json").exists():
        snapshots_listed = [Snapshot(0, folder)]
    return snapshots_listed
