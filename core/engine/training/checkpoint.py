"""A training's state on disk, complete or absent, from which it resumes as if it had not been stopped.

`checkpoint.json` names the tensor file that belongs to it and is written last, so that a kill at any moment leaves
either the previous or the new checkpoint. Tensors (network, heads, optimiser, centres) are safetensors, the rest is
JSON; nothing is pickled. No random state is stored, because each step has separate generators (`base.generator`).
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
    """Raised if a checkpoint is damaged or belongs to another training; the message says what to do."""


def save(folder: Path, state: dict[str, Any], tensors: dict[str, Tensor], lines: list[dict[str, Any]]) -> None:
    """Appends `lines` to the history, then replaces the checkpoint. state: JSON values, among them "step"."""
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
    """Returns the last saved state and tensors; None without a checkpoint. Raises BadCheckpoint if it is damaged."""
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
    """Returns the history up to the last checkpoint, one dict per step."""
    state = _read(folder)
    if state is None or not state["history"]:
        return []
    with open(folder / HISTORY, "rb") as lines:
        return [json.loads(line) for line in lines.read(state["history"]).splitlines()]


def has_diverged(folder: Path) -> bool:
    """Returns whether the training in a folder has diverged, so that it cannot be resumed."""
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
    """Writes a training's state into `folder`, about every `seconds`; only one process may use the folder.

    identity: JSON values that a resumed training must share, such as its configuration and image fingerprints.
    lines: figures of steps that the next checkpoint appends to the history.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], seconds: float = 30.0) -> None:
        self.folder, self.about, self.seconds = folder, json.loads(json.dumps(identity)), seconds
        self.lines: list[dict[str, Any]] = []
        self.saved = time.monotonic()

    def agree(self, state: dict[str, Any]) -> bool:
        """Returns whether the loaded `state` of a checkpoint has the identity of this training."""
        return all(state.get(key) == value for key, value in self.about.items())

    def resume(self, training: Training) -> None:
        """Restores `training` from the checkpoint; removes a damaged checkpoint or one with another identity.

        Raises Diverged if the training had diverged.
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
        """Writes a checkpoint. If a weight is not finite, raises Diverged and keeps the previous checkpoint.

        finished: whether the training has ended and all its results are on disk.
        """
        training.check()
        state, tensors = training.state()
        self._write({**state, "finished": finished}, tensors)

    def give_up(self, training: Training, reason: str) -> None:
        """Writes the history and the reason why the training diverged, after which it cannot be resumed."""
        self._write({"step": training.step, "diverged": reason}, {})

    def _write(self, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        save(self.folder, {**self.about, **state}, tensors, self.lines)
        self.lines.clear()
        self.saved = time.monotonic()


def restore(training: Training, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Restores `training` from the result of `load`. Raises Diverged if the training had diverged."""
    if "diverged" in state:
        raise Diverged(state["diverged"])
    training.restore(state, tensors)
