"""A verb that torchrun has started several times: the first has the run and its job, the others compute beside it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from app.commands._common import UserError, open_store, say


def as_one(args, begin: Callable[[Any], tuple[str, int]], doing: str) -> tuple[Any, str, int] | None:
    """(store, run, job) in the first process once the job is done, None in the others.

    begin: of the store, makes or finds the run and its queued job. doing: for a sentence. Raises UserError when the job
    or another process has ended before.
    """
    from core.engine import processes
    from core.engine.progress import Stopped
    from core.engine.tensors import pick_device
    from core.studio.runs import together

    processes.join(pick_device(args.device))
    if not processes.is_first():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the first stops all of them, at a checkpoint
        try:
            steps = processes.from_first()  # which has made the home, if there was none
            together.beside(open_store(args), steps, args.device)
        except RuntimeError as error:  # of the connection
            raise UserError(f"Another process has ended: {error}", 1) from None
        except Stopped:
            raise UserError("Stopped", 1) from None
        return None
    store = open_store(args)
    run_id, job = begin(store)
    processes.from_first(together.steps_of(store, job))
    say(args, f"{doing} {run_id} by {processes.world()} processes")
    row = together.execute(store, job)
    if row["status"] != "done":
        raise UserError(f"Job {job} {row['status']}: {row['error'] or row['message']}; the same command goes on", 1)
    return store, run_id, job
