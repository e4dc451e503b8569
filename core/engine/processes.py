"""The group of processes that `torchrun` starts to work as one: which of them this is, and what they exchange.

Without a group there is one process, and every function here returns what it was given. All of a group's processes
call the same functions in the same order. A process that dies closes its connections, which ends the others' next
exchange in an error; one that hangs does so after TIMEOUT.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

Result = TypeVar("Result")
TIMEOUT = timedelta(minutes=10)  # longest wait for another process
_control: list[Any] = []  # for what the CPU decides, where tensors go through NCCL


def wanted() -> int:
    """Returns how many processes torchrun has started for this command; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def join(device: torch.device | str = "cpu") -> None:
    """Enters the group that torchrun started; does nothing without torchrun, or if this process is in it already."""
    if wanted() > 1 and not joined():
        backend = "nccl" if torch.device(device).type == "cuda" else "gloo"
        place(device)
        dist.init_process_group(backend, timeout=TIMEOUT)
        _control[:] = [dist.new_group(backend="gloo", timeout=TIMEOUT)]


def place(device: torch.device | str) -> torch.device:
    """Chooses this process's device: processes that share a machine with GPUs take one each."""
    device = torch.device(device)
    if device.type == "cuda" and wanted() > 1:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    return device


def leave() -> None:
    """Leaves the group."""
    if joined():
        _control.clear()
        dist.destroy_process_group()


def joined() -> bool:
    """Returns whether this process is in a group."""
    return dist.is_available() and dist.is_initialized()


def world() -> int:
    """Returns how many processes work as one."""
    return dist.get_world_size() if joined() else 1


def rank() -> int:
    """Returns this process's number, from 0."""
    return dist.get_rank() if joined() else 0


def is_first() -> bool:
    """Returns whether this is the process that writes files and the database."""
    return rank() == 0


def from_first(value: Any = None) -> Any:
    """Returns the first process's `value` on every process; the others' is not looked at. Serves as a barrier."""
    if world() == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values, src=0, group=_control[0] if _control else None)
    return values[0]


def first_before_others(work: Callable[[], Result]) -> Result:
    """Runs `work()` on each process; the others begin once the first is done, and find what it has made."""
    if not is_first():
        from_first()
    result = work()
    if is_first():
        from_first()
    return result


def agreed(question: Callable[[], bool] | None) -> Callable[[], bool] | None:
    """Wraps a question so that all processes get the first one's answer; the others' question is not asked."""
    if world() == 1:
        return question
    return lambda: bool(from_first(question is not None and question() if is_first() else None))


def gather(x: Tensor) -> Tensor:
    """Gathers x (M, ...) of the same shape on each process -> (world, M, ...), by rank, with the gradient for each."""
    if world() == 1:
        return x[None]
    gathered: Tensor = _Gather.apply(x)
    return gathered


def total(x: Tensor) -> Tensor:
    """Returns the sum of x over all processes, without a gradient."""
    if world() > 1:
        x = x.clone()
        dist.all_reduce(x)
    return x


def collect(value: Any) -> list[Any]:
    """Collects each process's `value`, any object, in a list by rank."""
    if world() == 1:
        return [value]
    values: list[Any] = [None] * world()
    dist.all_gather_object(values, value, group=_control[0] if _control else None)
    return values


class _Gather(torch.autograd.Function):
    """All-gather; backward, each process gets the sum of all gradients for its own rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(world())]
        dist.all_gather(parts, x.contiguous())
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        gradient = gradients[0].contiguous()
        dist.all_reduce(gradient)
        return gradient[rank()]
