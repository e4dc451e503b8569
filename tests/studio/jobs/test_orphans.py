"""A run whose process was killed does not stay 'running'; one that is really at work does."""

import subprocess
import sys

import pytest

from core.studio.db import journal
from core.studio.jobs import orphans
from core.studio.jobs import queue as jobs
from core.studio.runs import records as runs
from core.studio.runs.pipeline import create_untrained, pretrain_run
from tests.conftest import ARCH

KILLED = """
import sys, time
from core.studio.db import opening
from core.studio.runs import pipeline
from tests.conftest import ARCH
import core.engine.backbones.encoder as encoder
encoder.build_encoder = lambda *_: (print("at it", flush=True), time.sleep(600))
pipeline.pretrain_run(opening.open(sys.argv[1]), sys.argv[2], "cpu")
"""


@pytest.mark.long
def test_a_killed_command_leaves_an_interrupted_run(store, tiny_study):
    run = create_untrained(store, tiny_study, 32, arch=ARCH)
    line = [sys.executable, "-c", KILLED, str(store.home.path), run]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "at it"
    assert runs.get_run(store, run)["status"] == "running"
    assert orphans.mark(store) == [], "its process lives"
    process.kill()
    process.wait()
    assert orphans.mark(store) == [run] and orphans.mark(store) == []
    assert runs.get_run(store, run)["status"] == "interrupted"
    assert "ended unexpectedly" in journal.read_log(store, run)[-1]["line"]
    pretrain_run(store, run, "cpu")
    assert runs.get_run(store, run)["status"] == "done", "and it can be done after all"
    assert not (runs.run_folder(store, run) / orphans.FILE).exists()


def test_a_job_at_work_keeps_its_run(store, tiny_study):
    run = create_untrained(store, tiny_study, 32, arch=ARCH)
    jobs.submit(store, [{"step": "pretrain", "run": run}], start=False)
    jobs.claim(store)
    runs.update_run(store, run, status="running")
    assert orphans.mark(store) == []


def test_the_server_marks_them_when_it_starts(store, tiny_study):
    from app.server import build

    run = create_untrained(store, tiny_study, 32, arch=ARCH)
    runs.update_run(store, run, status="running")
    build(store.home.path).state.ctx.store().close()
    assert runs.get_run(store, run)["status"] == "interrupted"
