"""The processes that `torchrun` starts for one pre-training run; the first process makes all decisions.

Without torchrun there is only one process, and nothing is exchanged. All processes of a group must call the same
functions in the same order. If a process dies, the next exchange fails in all others. If a process hangs, the exchange
fails after TIMEOUT.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

Result = TypeVar("Result")
TIMEOUT = timedelta(minutes=10)  # longest wait for another process in an exchange


def wanted() -> int:
    """Returns the number of processes that torchrun started for this command, or 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def join(device: torch.device | str = "cpu") -> None:
    """Joins the group that torchrun started. Does nothing without torchrun or if this process has already joined."""
    if wanted() > 1 and world() == 1:
        dist.init_process_group("cpu:gloo,cuda:nccl" if place(device).type == "cuda" else "gloo", timeout=TIMEOUT)


def place(device: torch.device | str) -> torch.device:
    """Returns this process's device. With several processes on CUDA, this is a separate GPU, made the current one."""
    device = torch.device(device)
    if device.type == "cuda" and wanted() > 1:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    return device


def leave() -> None:
    """Leaves the group of processes. Does nothing if there is only one process."""
    if world() > 1:
        dist.destroy_process_group()


def world() -> int:
    """Returns the number of processes in the group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Returns this process's number within the group, starting at 0."""
    return dist.get_rank() if world() > 1 else 0


def is_first() -> bool:
    """Returns whether this process is the first one, which writes files and the database."""
    return rank() == 0


def from_first(value: Any = None) -> Any:
    """Returns, in every process, the `value` passed by the first process, for which all others wait."""
    if world() == 1:
        return value
    values = [value if is_first() else None]
    dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
    return values[0]


def first_before_others(work: Callable[[], Result]) -> Result:
    """Returns the result of `work()`. The first process calls it first, so that the others find the files it wrote."""
    if not is_first():
        from_first()
    result = work()
    if is_first():
        from_first()
    return result


def agreed(question: Callable[[], bool] | None) -> Callable[[], bool] | None:
    """Wraps `question` so that only the first process calls it and all processes get its answer."""
    if world() == 1:
        return question
    return lambda: bool(from_first(question is not None and question() if is_first() else None))
