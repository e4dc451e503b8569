"""A training's state on disk: whole or absent, and enough to resume as if it had never stopped.

`checkpoint.json` names the tensor file that belongs to it and is written last, so a kill at any moment leaves the
checkpoint before or the one after. Tensors are safetensors (network, heads, optimiser, centres), the rest is JSON;
nothing is pickled. There is no random state to keep: every draw comes from a `base.generator` of its own step.
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
    """A checkpoint that is damaged or of another training; the message says what to do."""


def save(folder: Path, state: dict[str, Any], tensors: dict[str, Tensor], lines: list[dict[str, Any]]) -> None:
    """Append `lines` to the history, then replace the checkpoint. `state` is JSON and holds "step"."""
    folder.mkdir(parents=True, exist_ok=True)
    old = _read(folder)
    length = old["history"] if old else 0
    with open(folder / HISTORY, "ab") as out:
        out.truncate(length)  # what a killed process wrote after its last checkpoint
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
    """Loads what `save` was given last; None if there is no checkpoint. Raises BadCheckpoint if it cannot be read."""
    state = _read(folder)
    if state is None:
        return None
    try:
        return state, load_file(folder / Path(state["tensors"]).name)  # a foreign one leads nowhere else
    except (OSError, KeyError, TypeError, SafetensorError) as error:
        raise BadCheckpoint(
            f"the checkpoint in {folder} cannot be read ({error}); start again in a new folder"
        ) from error


def history(folder: Path) -> list[dict[str, Any]]:
    """Returns all lines of the history up to the last checkpoint."""
    state = _read(folder)
    if state is None or not state["history"]:
        return []
    with open(folder / HISTORY, "rb") as lines:
        return [json.loads(line) for line in lines.read(state["history"]).splitlines()]


def has_diverged(folder: Path) -> bool:
    """Tells whether the training in a folder ended because its numbers broke down, so that it cannot be resumed."""
    return "diverged" in (_read(folder) or {})


def clear(folder: Path) -> None:
    """Remove a checkpoint and its history."""
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
    """The state of one training in `folder`, written by one process, at least every `seconds` when a step ends.

    identity: JSON of what a resumed training must agree with, such as its configuration and fingerprints of its images.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], seconds: float = 30.0) -> None:
        self.folder, self.about, self.seconds = folder, json.loads(json.dumps(identity)), seconds
        self.lines: list[dict[str, Any]] = []
        self.saved = time.monotonic()

    def agree(self, state: dict[str, Any]) -> bool:
        """Tells whether a checkpoint's JSON is of this very training."""
        return all(state.get(key) == value for key, value in self.about.items())

    def resume(self, training: Training) -> None:
        """Restore `training` from its checkpoint; one of another training, or a damaged one, is removed.

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

    def add(self, line: dict[str, Any]) -> None:
        """Keep a step's numbers for the history."""
        self.lines.append(line)

    def save_if_due(self, training: Training) -> None:
        """Write a checkpoint, if the last is `seconds` old."""
        if time.monotonic() - self.saved >= self.seconds:
            self.save(training)

    def save(self, training: Training, finished: bool = False) -> None:
        """Write a checkpoint now. Raises Diverged, and leaves the one before, if a weight is not finite.

        finished: all that is made of the training is on disk too.
        """
        training.check()
        state, tensors = training.state()
        self._write({**state, "finished": finished}, tensors)

    def give_up(self, training: Training, reason: str) -> None:
        """Write the history and why the training ended; there is nothing to go on from."""
        self._write({"step": training.step, "diverged": reason}, {})

    def _write(self, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        save(self.folder, {**self.about, **state}, tensors, self.lines)
        self.lines.clear()
        self.saved = time.monotonic()


def restore(training: Training, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Restore `training` to what `load` gave. Raises Diverged if the training had diverged."""
    if "diverged" in state:
        raise Diverged(state["diverged"])
    training.restore(state, tensors)
