"""Who is alive, who gives way, and what one process does at a time."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading

import pytest

from core.studio.jobs.processes import alone, is_alive, start_of


def is_free(file):
    """Whether no process holds the lock `file`."""
    with open(file, "a") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def test_process_ids_are_distinguished_by_their_start():
    here = start_of(os.getpid())
    assert here and is_alive(os.getpid(), here)
    assert not is_alive(os.getpid(), here + "0")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not is_alive(ended.pid, None) and not is_alive(None, None)


def test_only_one_at_a_time_makes_what_both_would_write(tmp_path):
    seen, inside = [], threading.Event()

    def second():
        inside.wait(60)
        with alone(tmp_path / "lock"):
            seen.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with alone(tmp_path / "lock"):
        inside.set()
        assert not is_free(tmp_path / "lock")
        seen.append("first")
    thread.join(60)
    assert seen == ["first", "second"]


@pytest.mark.slow
def test_a_training_gives_way_and_a_short_job_does_not(store):
    code = (
        "import os, sys; from core.studio.jobs import worker; "
        "worker.run_queue = lambda *_: print(os.nice(0)); worker.main()"
    )
    niceness = []
    for name in ("long", "short"):
        line = [sys.executable, "-c", code, "--home", str(store.home.path), "--queue", name]
        niceness.append(
            int(subprocess.run(line, capture_output=True, text=True, timeout=60, start_new_session=True).stdout)
        )
    assert niceness[0] > niceness[1] == os.nice(0)
