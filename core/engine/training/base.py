"""What the loop runs: networks, their optimisers, and one step of them."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from core.engine.progress import Report, Stop


class Diverged(ValueError):
    """Raised when a loss or weights are no longer finite; the message says at which step and what to change."""


class Training(abc.ABC):
    """One training in memory. `step` is the number of steps done, of `steps` in all.

    networks, optimisers: by the name that a checkpoint keeps them under. title: for sentences. remedy: what to change
    after the training has diverged. report, should_stop: the loop's, for what takes long before a step.
    """

    title: ClassVar[str]
    remedy: str = "a lower learning rate"
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
        """What a checkpoint keeps beside tensors, as JSON takes it."""
        return {}

    def restore_notes(self, notes: dict[str, Any]) -> None:
        """Put back what `notes` gave."""
        return

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps beside networks and optimisers; names without a dot."""
        return {}

    def restore_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Put back what `tensors` gave."""
        return

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """JSON and tensors for a checkpoint: all that the next step depends on, since draws follow from the step."""
        tensors = self.tensors()
        for name, network in self.networks.items():
            tensors |= {f"{name}.{key}": value for key, value in network.state_dict().items()}
        for name, optimiser in self.optimisers.items():
            tensors |= optimiser_state(optimiser, name)
        return {"step": self.step, **self.notes()}, tensors

    def restore(self, about: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Put back what `state` gave."""
        for name, network in self.networks.items():
            start = f"{name}."
            network.load_state_dict({k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)})
        for name, optimiser in self.optimisers.items():
            restore_optimiser(optimiser, tensors, name)
        self.step = about["step"]
        self.restore_tensors({k: v for k, v in tensors.items() if "." not in k})
        self.restore_notes(about)

    def check(self) -> None:
        """Raise Diverged if a weight or a running statistic is not finite."""
        for network in self.networks.values():
            if not all(bool(v.isfinite().all()) for v in network.state_dict().values() if v.is_floating_point()):
                raise self.diverged("its weights are")

    def diverged(self, what: str) -> Diverged:
        """The error to raise. what: "its loss is" or "its weights are"."""
        plural = "numbers" if what.endswith("are") else "a number"
        return Diverged(
            f"{self.title} broke down at step {self.step}: {what} no longer {plural}. Start again with {self.remedy}."
        )


def optimiser_state(optimiser: torch.optim.Optimizer, name: str = "optimiser") -> dict[str, Tensor]:
    """Its tensors as `name.parameter.key`; hyper-parameters are the configuration's and need no keeping."""
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
            kept = torch.empty_like(like if value.shape == like.shape else value, dtype=value.dtype, device="cpu")
            state.setdefault(int(index), {})[what] = kept.copy_(value)
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
