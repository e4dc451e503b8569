"""Dry run of pre-training in a separate process: measures the time and memory of a few real training steps.

python -m core.studio.training.dryrun --home DIR < {"study": ..., "config": {...}, "device": "auto"}
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.engine.objectives.config import PretrainConfig

SECONDS, MOST = 6.0, 6  # limits of the timed steps: their total time and their number
LIMIT = 300  # seconds for the whole dry run
# Memory in bytes of a dry run of ResNet-18 on a CPU, at 32 pixels in batches of 2; libraries take most of it.
LEAST = 1150 * 2**20


def least_memory(config: PretrainConfig) -> int:
    """Returns the minimum memory of a dry run in bytes: LEAST, plus one batch of float32 views and their gradients."""
    views = config.batch * (config.k + 1) * 2
    return LEAST + views * 3 * config.size**2 * 4 * 2


def dry_run(home: Path, study: str, config: dict) -> dict:
    """Runs `measure` in a separate process; returns its result, or a message if there is too little memory.

    Returns:
        A dictionary with "fits", "message", "seconds_step" (seconds per step), "seconds_epoch", "seconds_total",
        "steps", "per_epoch" (steps per epoch), "images", "timed" (number of timed steps), "device", "memory" (bytes
        used) and "free" (bytes available). If the training run does not fit into memory, most keys are missing.

    Raises:
        ValueError: If the dry run failed.
    """
    from core.engine.objectives.config import PretrainConfig

    free, least = free_host_memory(), least_memory(PretrainConfig.from_dict(config))
    if free < least:
        text = f"Not tried: it needs at least {least / 2**30:.1f} GB of memory, but {free / 2**30:.1f} GB are free."
        return {"fits": False, "free": free, "message": f"{text} Wait until other jobs end, or use a smaller batch."}
    root = Path(__file__).resolve().parents[3]
    command = [sys.executable, "-m", "core.studio.training.dryrun", "--home", str(home)]
    request = json.dumps({"study": study, "config": config, "device": "auto"})
    try:
        done = subprocess.run(command, input=request, capture_output=True, text=True, cwd=root, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise ValueError(f"a few steps took longer than {LIMIT} s; use smaller images or a smaller batch") from None
    line = done.stdout.strip().splitlines()[-1:]
    if done.returncode < 0:
        return {"fits": False, "message": "It does not fit: the machine ran out of memory. Use a smaller batch."}
    if done.returncode or not line:
        raise ValueError(f"the dry run ended unexpectedly: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
    result = json.loads(line[0])
    if "error" in result:
        raise ValueError(result["error"])
    return result


def measure(home: Path, study: str, config: dict, device: str) -> dict:
    """Measures time and memory of estimating class centres and of a few training steps; see `dry_run`."""
    import torch

    from core.engine.objectives.config import PretrainConfig
    from core.engine.rows import rows_of
    from core.engine.tensors import most_memory, pick_device
    from core.engine.training.pretraining import Data, Pretraining
    from core.studio.db import opening
    from core.studio.ingest.donors import pool_of
    from core.studio.ingest.studies import load_arrays

    chosen, torch_device = PretrainConfig.from_dict(config), pick_device(device)
    opened = opening.open(str(home))
    arrays = load_arrays(opened, study, chosen.size)
    train = arrays.index("train")
    if len(train) < 2:
        raise ValueError("the study has fewer than two normal training images")
    free = free_memory(torch_device)
    try:
        data = Data(rows_of(arrays.images, train), rows_of(arrays.roi, train), *pool_of(opened, chosen))
        trainer = Pretraining(chosen, data, torch_device)
        start = time.perf_counter()
        trainer.prepare()
        centring = time.perf_counter() - start
        times: list[float] = []
        while len(times) < min(MOST, trainer.steps) and (len(times) < 2 or sum(times) < SECONDS):
            start = time.perf_counter()
            trainer.advance()
            if torch_device.type == "cuda":
                torch.cuda.synchronize(torch_device)
            times.append(time.perf_counter() - start)
    except (torch.OutOfMemoryError, MemoryError):
        return {"fits": False, "free": free, "message": "It does not fit: the device ran out of memory in the first "
                "steps. Use a smaller batch or smaller images."}  # fmt: skip
    counted = times[1:] or times  # the first step is slower, because caches and kernels are not ready
    step = sum(counted) / len(counted)
    cuda, threads = torch_device.type == "cuda", torch.get_num_threads()
    memory = most_memory(torch_device)
    total = centring * (trainer.epochs // chosen.reestimate_every) if chosen.centres == "re-estimated" else centring
    measures = {
        "fits": not cuda or memory < free,  # on a CPU the steps have just been taken in the memory that there is
        "seconds_step": step,
        "seconds_epoch": step * trainer.per_epoch,
        "seconds_total": step * trainer.steps + total,
        "steps": trainer.steps,
        "per_epoch": trainer.per_epoch,
        "images": len(train),
        "memory": memory,
        "free": free,
        "device": torch.cuda.get_device_name(torch_device) if cuda else f"CPU, {threads} thread{'s' * (threads != 1)}",
        "timed": len(times),
    }
    return {**measures, "message": "It fits." if measures["fits"] else "It may not fit: use a smaller batch."}


def free_memory(device) -> int:
    """Returns the free memory of the device in bytes."""
    if device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    return free_host_memory()


def free_host_memory() -> int:
    """Returns the free memory of the machine in bytes."""
    try:
        with open("/proc/meminfo") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", required=True, type=Path)
    home = parser.parse_args().home
    try:
        print(json.dumps(measure(home, **json.load(sys.stdin))))
    except ValueError as error:
        print(json.dumps({"error": str(error)}))


if __name__ == "__main__":
    main()
