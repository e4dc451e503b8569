"""Base of all trainings, which the loop runs: networks, their optimisers, and one step of them."""

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
    """Raised when a loss or weights are no longer finite; the message says at which step and what to change."""


class Training(abc.ABC):
    """One training in memory. `step` is the number of steps done, of `steps` in all.

    networks, optimisers: by the name that a checkpoint keeps them under. title: for sentences. remedy: what to change
    after the training has diverged. ended: why it is to end now, in a sentence; "" if it is not. report, should_stop:
    the loop's, for what takes long before a step.
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
        """Do what must come before step `step`, such as estimating centres; a second call changes nothing.

        Raises Stopped when asked to stop meanwhile; called again, it begins anew.
        """
        return

    @abc.abstractmethod
    def advance(self) -> dict[str, Any]:
        """Do one step, after which `step` is one more. Returns its numbers, `loss` among them.

        `seen`, if given, is the number of images; the loop makes images_per_second of it.
        """

    def notes(self) -> dict[str, Any]:
        """Gives what a checkpoint keeps beside tensors, as JSON takes it."""
        return {}

    def restore_notes(self, notes: dict[str, Any]) -> None:
        """Put back what `notes` gave."""
        return

    def tensors(self) -> dict[str, Tensor]:
        """Gives what a checkpoint keeps beside networks and optimisers; names without a dot."""
        return {}

    def restore_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Put back what `tensors` gave."""
        return

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Returns JSON and tensors for a checkpoint: all that the next step depends on.

        Random state is no part of it, since draws follow from the step.
        """
        tensors = self.tensors()
        for name, network in self.networks.items():
            tensors |= {f"{name}.{key}": value for key, value in network.state_dict().items()}
        for name, optimiser in self.optimisers.items():
            tensors |= optimiser_state(optimiser, name)
        return {"step": self.step, **self.notes()}, tensors

    def restore(self, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Put back what `state` gave."""
        for name, network in self.networks.items():
            start = f"{name}."
            network.load_state_dict({k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)})
        for name, optimiser in self.optimisers.items():
            restore_optimiser(optimiser, tensors, name)
        self.step = state["step"]
        self.restore_tensors({k: v for k, v in tensors.items() if "." not in k})
        self.restore_notes(state)

    def check(self) -> None:
        """Raise Diverged if a weight or a running statistic is not finite."""
        for network in self.networks.values():
            if not all(bool(v.isfinite().all()) for v in network.state_dict().values() if v.is_floating_point()):
                raise self.diverged("its weights are")

    def diverged(self, what: str) -> Diverged:
        """Returns the error to raise. what: "its loss is" or "its weights are"."""
        plural = "numbers" if what.endswith("are") else "a number"
        return Diverged(
            f"{self.title} broke down at step {self.step}: {what} no longer {plural}. Start again with {self.remedy}."
        )


def optimiser_state(optimiser: torch.optim.Optimizer, name: str = "optimiser") -> dict[str, Tensor]:
    """Returns an optimiser's tensors as `name.parameter.key`; hyper-parameters are the configuration's, so not kept."""
    return {
        f"{name}.{index}.{key}": torch.as_tensor(value)
        for index, values in optimiser.state_dict()["state"].items()
        for key, value in values.items()
        if value is not None
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor], name: str = "optimiser") -> None:
    """Put back what `optimiser_state` gave. Each tensor takes its parameter's memory format, as it had."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith(f"{name}."):
            _, index, what = key.split(".")
            like = parameters[int(index)]
            host_copy = torch.empty_like(like if value.shape == like.shape else value, dtype=value.dtype, device="cpu")
            state.setdefault(int(index), {})[what] = host_copy.copy_(value)
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


# Averaged weights: an exponential moving average whose memory grows with the steps.


class Average(AveragedModel):
    """An average of `net`, its buffers included, that starts as a copy; call `update_parameters(net)` after each step.

    After step s the mean keeps min(decay, 1 - 1 / (s + 1)) of itself: the plain mean of all weights at first, since a
    long memory would hold the random start, and an exponential average later. Integer buffers are copied.
    """

    n_averaged: torch.Tensor

    def __init__(self, net: nn.Module, decay: float) -> None:
        super().__init__(net, use_buffers=True)
        self.decay = decay
        self.n_averaged.fill_(1)  # the weights at the start are the first of those averaged

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Updates the average as torch's does, but asks no device for the count, which lies on the CPU."""
        decay = min(self.decay, 1 - 1 / (int(self.n_averaged) + 1))
        means, now = ([*net.parameters(), *net.buffers()] for net in (self.module, model))
        pairs = list(zip(means, now, strict=True))
        blended = [pair for pair in pairs if pair[0].is_floating_point()]
        copied = [pair for pair in pairs if not pair[0].is_floating_point()]
        torch._foreach_lerp_([mean for mean, _ in blended], [value for _, value in blended], 1 - decay)
        if copied:
            torch._foreach_copy_([mean for mean, _ in copied], [value for _, value in copied])
        self.n_averaged += 1


# Random draws of a training: each step has generators of its own, so that a resumed training draws the same.
#
# A generator follows from (seed, purpose, step) alone. No random state has to be kept, and what one purpose draws does
# not depend on how much another one drew.


ORDER = 0  # of the images; `step` counts epochs
STEP = 1  # a step's batch, where it has no order, and its augmentations
CENTRES = 2  # images and augmentations that centres are estimated from
VALIDATION = 3  # augmentations of held-out images: the same at every epoch and in every run of a seed
PATCHES = 4  # which patches of an image are taken
SHARES = 5  # how much of each of two codes is mixed
JUDGES = 6  # lesions that fitted detectors are compared by


def generator(seed: int, purpose: int, step: int = 0) -> torch.Generator:
    """Makes the CPU generator of (seed, purpose, step), none of them negative. Raises ValueError if one is."""
    state = np.random.SeedSequence((seed, purpose, step)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> 1))


# What a training depends on, as one short text: images, regions of interest, weights.


CHUNK = 64  # images read at once, so that a memory map is never read into memory whole


def fingerprint(*parts: np.ndarray | Mapping[str, Tensor] | None) -> str:
    """Computes a hexadecimal digest over every value of arrays (N, ...) and of weights by name, in the order given.

    SHA-256 takes about 2 s for a gigabyte; two parts of equal bytes but another shape or type differ.
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
