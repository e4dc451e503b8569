"""State of a training run on disk, from which the run resumes as if it had not been stopped.

`checkpoint.json` names its tensor file and is written last, so that a killed process leaves either the previous or the
new checkpoint. Tensors (network, heads, optimiser, centres) are stored as safetensors, the rest as JSON; nothing is
pickled. No random state is stored, because every step uses new generators.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from core.engine.files import write_json, write_tensors
from core.engine.training.base import Diverged, Training

NAME, HISTORY = "checkpoint.json", "history.jsonl"


class BadCheckpoint(ValueError):
    """Raised if a checkpoint is damaged or belongs to another run. The message says what to do."""


def save(folder: Path, state: dict[str, Any], tensors: dict[str, Tensor], lines: list[dict[str, Any]]) -> None:
    """Replaces the checkpoint and appends `lines`, the metrics per step since the last checkpoint, to the history.

    The JSON values `state` must have the key "step". The folder is created if necessary.
    """
    folder.mkdir(parents=True, exist_ok=True)
    old = _read(folder)
    length = old["history"] if old else 0
    with open(folder / HISTORY, "ab") as out:
        out.truncate(length)  # removes lines that a killed process wrote after its last checkpoint
        out.seek(length)
        out.write("".join(json.dumps(line, allow_nan=False) + "\n" for line in lines).encode())
        length = out.tell()
    name = f"checkpoint-{state['step']:08d}.safetensors"
    write_tensors(folder / name, tensors)
    write_json(folder / NAME, {**state, "tensors": name, "history": length})
    for other in folder.glob("checkpoint-*.safetensors"):
        if other.name != name:
            other.unlink(missing_ok=True)


def load(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Returns the last saved state and tensors, or None. Raises BadCheckpoint if the checkpoint is damaged."""
    state = _read(folder)
    if state is None:
        return None
    try:
        return state, load_file(folder / Path(state["tensors"]).name)  # never a path outside the folder
    except (OSError, KeyError, TypeError, SafetensorError) as error:
        raise BadCheckpoint(
            f"the checkpoint in {folder} cannot be read ({error}); start again in a new folder"
        ) from error


def history(folder: Path) -> list[dict[str, Any]]:
    """Returns the metrics of all steps up to the last checkpoint, one dictionary per step."""
    state = _read(folder)
    if state is None or not state["history"]:
        return []
    with open(folder / HISTORY, "rb") as lines:
        return [json.loads(line) for line in lines.read(state["history"]).splitlines()]


def has_diverged(folder: Path) -> bool:
    """Returns whether the run in `folder` has diverged and therefore cannot be resumed."""
    return "diverged" in (_read(folder) or {})


def clear(folder: Path) -> None:
    """Removes a checkpoint and its history."""
    for path in (folder / NAME, folder / HISTORY, *folder.glob("checkpoint-*.safetensors")):
        path.unlink(missing_ok=True)


def _read(folder: Path) -> dict[str, Any] | None:
    try:
        state: dict[str, Any] = json.loads((folder / NAME).read_text())
        return state
    except FileNotFoundError:
        return None
    except (OSError, json.JSONDecodeError) as error:
        raise BadCheckpoint(f"{folder / NAME} cannot be read ({error}); start again in a new folder") from error


class Checkpoints:
    """Writes the state of a training run into a folder at regular intervals.

    Only one process may use the folder. `lines` holds metrics that the next checkpoint appends to the history.

    Args:
        folder: Folder of the checkpoint.
        identity: JSON values that must be equal in a resumed run, such as configuration and image fingerprints.
        seconds: Time between two checkpoints in seconds.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], seconds: float = 30.0) -> None:
        self.folder, self.about, self.seconds = folder, json.loads(json.dumps(identity)), seconds
        self.lines: list[dict[str, Any]] = []
        self.saved = time.monotonic()

    def agree(self, state: dict[str, Any]) -> bool:
        """Returns whether the `state` loaded from a checkpoint has the identity of this run."""
        return all(state.get(key) == value for key, value in self.about.items())

    def resume(self, training: Training) -> None:
        """Restores `training` from the checkpoint. Removes the checkpoint if it is damaged or belongs to another run.

        Raises Diverged if the run had diverged.
        """
        try:
            saved = load(self.folder)
        except BadCheckpoint:
            saved = None
        if saved is not None and self.agree(saved[0]):
            restore(training, *saved)
        else:
            clear(self.folder)

    def save_if_due(self, training: Training) -> None:
        """Writes a checkpoint if the last one is at least `seconds` old."""
        if time.monotonic() - self.saved >= self.seconds:
            self.save(training)

    def save(self, training: Training, finished: bool = False) -> None:
        """Writes a checkpoint. Raises Diverged, and keeps the previous checkpoint, if a weight is not finite.

        `finished` states whether the run has ended and all its results are on disk.
        """
        training.check()
        state, tensors = training.state()
        self._write({**state, "finished": finished}, tensors)

    def give_up(self, training: Training, reason: str) -> None:
        """Saves the history and the `reason` why the run diverged. The run cannot be resumed afterwards."""
        self._write({"step": training.step, "diverged": reason}, {})

    def _write(self, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        save(self.folder, {**self.about, **state}, tensors, self.lines)
        self.lines.clear()
        self.saved = time.monotonic()


def restore(training: Training, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Restores `training` from the result of `load`. Raises Diverged if the run had diverged."""
    if "diverged" in state:
        raise Diverged(state["diverged"])
    training.restore(state, tensors)
