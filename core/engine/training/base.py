"""Base class of all training runs: networks, optimisers, and one training step. `loop.py` runs the steps."""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from core.engine.progress import Report, Stop


class Diverged(ValueError):
    """Raised if loss or weights are not finite, or if an alarm ends the training. The message says what to change."""


class Training(abc.ABC):
    """Base class of all training runs.

    Attributes:
        title: Name of the kind of training, as used in messages.
        remedy: What to change after the training has diverged, as a phrase.
        ended: Sentence that states why the training must end now, or "".
        step, steps: Number of finished steps and total number of steps.
        report, should_stop: Functions passed by the caller; the loop sets them for use in `prepare`.
        networks, optimisers: Networks and optimisers, by their names in a checkpoint.
    """

    title: ClassVar[str]
    remedy: str = "a lower learning rate"
    ended: str = ""
    step: int = 0
    steps: int
    report: Report | None = None
    should_stop: Stop | None = None
    networks: dict[str, nn.Module]
    optimisers: dict[str, torch.optim.Optimizer]

    def prepare(self) -> None:
        """Prepares the next step, for example by estimating centres. A second call before this step has no effect.

        Raises Stopped if `should_stop` returns True. The next call then starts the preparation again.
        """
        return

    @abc.abstractmethod
    def advance(self) -> dict[str, Any]:
        """Runs one step, increments `step` and returns the step's metrics by name.

        The metric `loss` is required. The optional metric `seen` is the number of images used, from which the loop
        computes images_per_second.
        """

    def notes(self) -> dict[str, Any]:
        """Returns the values that a checkpoint stores besides tensors; they must be valid JSON."""
        return {}

    def restore_notes(self, notes: dict[str, Any]) -> None:
        """Restores the values that the method `notes` returned."""
        return

    def tensors(self) -> dict[str, Tensor]:
        """Returns the tensors that a checkpoint stores besides networks and optimisers, by names without a dot."""
        return {}

    def restore_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Restores the tensors that the method `tensors` returned."""
        return

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Returns the JSON values and the tensors of a checkpoint, which determine all further steps.

        No random state is needed, because random draws depend only on the step.
        """
        tensors = self.tensors()
        for name, network in self.networks.items():
            tensors |= {f"{name}.{key}": value for key, value in network.state_dict().items()}
        for name, optimiser in self.optimisers.items():
            tensors |= optimiser_state(optimiser, name)
        return {"step": self.step, **self.notes()}, tensors

    def restore(self, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Restores the training from the JSON values and tensors that the method `state` returned."""
        for name, network in self.networks.items():
            start = f"{name}."
            network.load_state_dict({k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)})
        for name, optimiser in self.optimisers.items():
            restore_optimiser(optimiser, tensors, name)
        self.step = state["step"]
        self.restore_tensors({k: v for k, v in tensors.items() if "." not in k})
        self.restore_notes(state)

    def check(self) -> None:
        """Raises Diverged if a weight or a running statistic of a network is not finite."""
        for network in self.networks.values():
            if not all(bool(v.isfinite().all()) for v in network.state_dict().values() if v.is_floating_point()):
                raise self.diverged("its weights are")

    def diverged(self, what: str) -> Diverged:
        """Returns the error to raise if training has diverged; its message contains `what`, such as "its loss is"."""
        plural = "numbers" if what.endswith("are") else "a number"
        return Diverged(
            f"{self.title} broke down at step {self.step}: {what} no longer {plural}. Start again with {self.remedy}."
        )


def optimiser_state(optimiser: torch.optim.Optimizer, name: str = "optimiser") -> dict[str, Tensor]:
    """Returns an optimiser's tensors, but no hyper-parameters, by `{name}.{parameter index}.{key}`."""
    return {
        f"{name}.{index}.{key}": torch.as_tensor(value)
        for index, values in optimiser.state_dict()["state"].items()
        for key, value in values.items()
        if value is not None
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor], name: str = "optimiser") -> None:
    """Restores an optimiser from the result of `optimiser_state`, in the memory format of each parameter."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith(f"{name}."):
            _, index, key_of_state = key.split(".")
            like = parameters[int(index)]
            host_copy = torch.empty_like(like if value.shape == like.shape else value, dtype=value.dtype, device="cpu")
            state.setdefault(int(index), {})[key_of_state] = host_copy.copy_(value)
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


class Average(AveragedModel):
    """Moving average of the weights and buffers of `net`; call `update_parameters(net)` after each step.

    After step s, the previous average is weighted by min(decay, 1 - 1 / (s + 1)). At first it is thus the mean of all
    weights so far, so that the random start soon loses influence; later it is exponential. Integer buffers are copied.
    """

    n_averaged: torch.Tensor

    def __init__(self, net: nn.Module, decay: float) -> None:
        super().__init__(net, use_buffers=True)
        self.decay = decay
        self.n_averaged.fill_(1)  # the initial weights are part of the average

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Updates the average with the weights of `model`. The count is on the CPU, to avoid waiting for a GPU."""
        decay = min(self.decay, 1 - 1 / (int(self.n_averaged) + 1))
        means, now = ([*net.parameters(), *net.buffers()] for net in (self.module, model))
        pairs = list(zip(means, now, strict=True))
        blended = [pair for pair in pairs if pair[0].is_floating_point()]
        copied = [pair for pair in pairs if not pair[0].is_floating_point()]
        torch._foreach_lerp_([mean for mean, _ in blended], [value for _, value in blended], 1 - decay)
        if copied:
            torch._foreach_copy_([mean for mean, _ in copied], [value for _, value in copied])
        self.n_averaged += 1


# Purposes of random draws, for the function `generator`.
ORDER = 0  # order of the images; `step` counts epochs
STEP = 1  # augmentations of a step, and its batch if batches are drawn independently
CENTRES = 2  # images and augmentations from which centres are estimated
VALIDATION = 3  # augmentations of held-out images: the same in every epoch and in every run with the same seed
PATCHES = 4  # patches used of each image
SHARES = 5  # weights of two codes in their mixture
JUDGES = 6  # lesions on which fitted detectors are compared


def generator(seed: int, purpose: int, step: int = 0) -> torch.Generator:
    """Returns a random generator on the CPU that depends only on seed, purpose of the draws, and step.

    A resumed run therefore draws the same numbers although no random state is stored, and draws for one purpose (such
    as ORDER) do not depend on draws for another. Raises ValueError if an argument is negative.
    """
    state = np.random.SeedSequence((seed, purpose, step)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> 1))


CHUNK = 64  # number of images read at once, so that a memory map is never completely in memory


def fingerprint(*parts: np.ndarray | Mapping[str, Tensor] | None) -> str:
    """Returns a fingerprint of arrays `(N, ...)` and weights by name: the first 32 hexadecimal digits of a SHA-256.

    Hashing takes about 2 s per gigabyte. Arrays with equal bytes but different shapes or types have different
    fingerprints.
    """
    digest = hashlib.sha256()
    for item in parts:
        if item is None:
            digest.update(b"none")
        elif isinstance(item, Mapping):
            for name, value in sorted(item.items()):
                digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
                digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        else:
            digest.update(f"{item.dtype} {item.shape}".encode())
            for start in range(0, len(item), CHUNK):
                digest.update(np.ascontiguousarray(item[start : start + CHUNK]).data)
    return digest.hexdigest()[:32]
