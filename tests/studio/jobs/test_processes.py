"""Who is alive, and who gives way."""

import os
import subprocess
import sys

import pytest

from core.studio.jobs.processes import is_alive, start_of


def test_process_ids_are_distinguished_by_their_start():
    here = start_of(os.getpid())
    assert here and is_alive(os.getpid(), here)
    assert not is_alive(os.getpid(), here + "0")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not is_alive(ended.pid, None) and not is_alive(None, None)


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
