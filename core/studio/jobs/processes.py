"""Starts detached processes, and checks whether a process id still belongs to the same process.

The system reuses process ids, so a process is identified by its id together with its start time.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def start_of(pid: int) -> str | None:
    """Returns a text that identifies when process `pid` started, or None if it has ended or is a zombie."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except (OSError, ValueError):
            return None
        return None if fields[0] in ("Z", "X") else f"{boot}:{fields[19]}"
    try:  # macOS and BSD have no /proc
        line = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
        state, _, started = (
            subprocess.run(line, capture_output=True, text=True, timeout=10).stdout.strip().partition(" ")
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return None if not state or state.startswith("Z") else started.strip()


def is_alive(pid: int | None, started: str | None) -> bool:
    """Returns whether process `pid` is running and has the start time `started`, which is a result of `start_of`."""
    if not pid:
        return False
    here = start_of(pid)
    if here is not None:
        return started is None or here == started
    if Path("/proc/self/stat").exists():
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return started is None


def detached(line: list[str], folder: Path, log: Path) -> int:
    """Starts the command `line` in a new session, so that it outlives this process; returns the process id."""
    with open(log, "ab") as out:
        process = subprocess.Popen(
            line, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    _CHILDREN[:] = [p for p in _CHILDREN if p.poll() is None] + [process]
    return process.pid


_CHILDREN: list[subprocess.Popen] = []  # polled, so that ended processes do not remain zombies
