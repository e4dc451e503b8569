"""The saved encoders of a run, by epoch."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from core.engine.files import file_sha256
from core.studio.db.store import Store
from core.studio.runs import records as runs


@dataclass(frozen=True)
class Snapshot:
    """One saved encoder of a run."""

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
    """Returns the run itself if it is a pre-training, else the pre-training that it was fitted on."""
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
