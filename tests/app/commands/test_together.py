"""`torchrun launch.py pretrain`: two processes make one run, as one process would."""

import os
import subprocess
import sys

import pytest

from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.studio.db import journal
from core.studio.jobs import queue as jobs
from core.studio.runs import pipeline
from core.studio.runs import records as runs
from tests.conftest import ROOT

SMALL = {"size": 32, "batch": 4, "k": 1, "steps": 4, "centre_images": 6}
SMALL |= {"encoder.arch": "test_resnet", "encoder.hidden": 16, "encoder.dim": 16, "encoder.init": "random"}


def torchrun(home, *words):
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "launch.py", *words]
    line += ["--home", str(home.path), "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, cwd=ROOT, env=environment, timeout=250, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def settings(changes):
    return [part for key, value in changes.items() for part in ("--set", f"{key}={value}")]


@pytest.mark.longest
def test_two_processes_train_one_encoder(store, home, tiny_study):
    torchrun(home, "pretrain", tiny_study, "--preset", "quick", *settings(SMALL))
    (run,) = runs.list_runs(store, tiny_study)
    assert run["status"] == "done" and (runs.run_folder(store, run["id"]) / "encoder.json").exists()
    assert [step for step, _ in journal.metrics(store, run["id"])["loss"]] == [1, 2, 3, 4]
    assert [job["status"] for job in jobs.list_jobs(store)] == ["done"]


def test_the_same_command_goes_on_with_what_did_not_end(store, tiny_study):
    config = PRETRAIN_PRESETS["quick"].replace(size=32).to_dict()
    run, job = pipeline.begin(store, tiny_study, config, None, "cpu")
    store.execute("UPDATE jobs SET status = 'running', pid = 1, pid_start = 'another boot' WHERE id = ?", [job])
    assert pipeline.begin(store, tiny_study, config, None, "cpu") == (run, job)
    assert jobs.get_job(store, job)["status"] == "queued"
    store.execute("UPDATE jobs SET status = 'done' WHERE id = ?", [job])
    other, _ = pipeline.begin(store, tiny_study, config, None, "cpu")
    assert other != run
