"""Two processes on this machine that work as one, for tests of what they do together."""

from __future__ import annotations

import os
import pickle
import socket
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import multiprocessing

from core.engine import processes

WORLD, PATIENCE = 2, 600  # seconds for both to end, on a loaded machine


def together(work: Callable[..., Any], *args: Any) -> list[Any]:
    """What `work(*args)`, a function of a module, returns on each of two processes joined by gloo."""
    context, port = multiprocessing.get_context("spawn"), free_port()
    with tempfile.TemporaryDirectory() as folder:
        answers = [Path(folder) / str(rank) for rank in range(WORLD)]
        started = [context.Process(target=_one, args=(r, port, answers[r], work, args)) for r in range(WORLD)]
        for process in started:
            process.start()
        for process in started:
            process.join(PATIENCE)
            process.kill()
        found = [pickle.loads(answer.read_bytes()) for answer in answers]
    for value in found:
        assert not isinstance(value, str), value  # the text of an error
    return found


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _one(rank: int, port: int, answer: Path, work: Callable[..., Any], args: tuple) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(WORLD), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    try:
        processes.join()
        value = work(*args)
    except Exception:
        value = traceback.format_exc()
    answer.write_bytes(pickle.dumps(value))
    processes.leave()
