"""`torchrun launch.py pretrain|fit|score`: two processes make one run, as one process would."""

import os
import subprocess
import sys

import pytest

from app.commands import main
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.studio.db import journal
from core.studio.jobs import queue as jobs
from core.studio.runs import records as runs
from core.studio.runs import together
from core.studio.runs.pipeline import create_fit, create_untrained, fit_run, pretrain_run
from core.studio.runs.scoring import score_run
from tests.conftest import ROOT

SMALL = {"size": 32, "batch": 4, "k": 1, "steps": 4, "centre_images": 6}
SMALL |= {"encoder.arch": "test_resnet", "encoder.hidden": 16, "encoder.dim": 16, "encoder.init": "random"}

NOT_TRAINED = "SELECT count(*) AS n FROM cases WHERE study = ? AND split != 'train'"


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


@pytest.mark.longest
def test_two_processes_fit_and_score_as_one_does(store, home, tiny_study):
    encoder = create_untrained(store, tiny_study, 32, arch="test_resnet")
    pretrain_run(store, encoder, "cpu")
    head = {"steps": 3, "batch": 4, "width": 16, "autocast": "false"}
    torchrun(home, "fit", encoder, "--detector", "lesion-head", "--score", *settings(head))
    (fit,) = runs.list_runs(store, tiny_study, "fit")
    assert fit["status"] == "done" and not (runs.run_folder(store, fit["id"]) / "partial").exists()
    assert [step for step, _ in journal.metrics(store, fit["id"])["l_lesion"]] == [1, 2, 3]
    assert [job["status"] for job in jobs.list_jobs(store)] == ["done"]
    read = scores(store, fit["id"])
    assert len(read) == fit["summary"]["scored"] == store.one(NOT_TRAINED, [tiny_study])["n"]

    score_run(store, fit["id"], "cpu")
    assert scores(store, fit["id"]) == pytest.approx(read, abs=1e-4), "the same weights, read by one process"
    alone = create_fit(store, encoder, "lesion-head", fit["config"])
    fit_run(store, alone, "cpu")
    score_run(store, alone, "cpu")
    assert scores(store, alone) == pytest.approx(read, abs=0.05), "three steps, up to rounding"

    torchrun(home, "score", fit["id"], "--no-steady")
    assert scores(store, fit["id"]) == pytest.approx(read, abs=1e-4)


def scores(store, run):
    return [row["score"] for row in store.query("SELECT score FROM readings WHERE run = ? ORDER BY case_id", [run])]


def test_a_detector_that_one_process_fits_is_refused_under_torchrun(store, home, tiny_study, monkeypatch, capsys):
    encoder = create_untrained(store, tiny_study, 32, arch="test_resnet")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["fit", encoder, "--detector", "blend", "--home", str(home.path)]) == 2
    assert "several processes can fit combined, igd, lesion-head, padim, but not blend" in capsys.readouterr().err
    assert not runs.list_runs(store, tiny_study, "fit")


def test_the_same_command_goes_on_with_what_did_not_end(store, tiny_study):
    config = PRETRAIN_PRESETS["quick"].replace(size=32).to_dict()
    run, job = together.begin(store, tiny_study, config, None, "cpu")
    store.execute("UPDATE jobs SET status = 'running', pid = 1, pid_start = 'another boot' WHERE id = ?", [job])
    assert together.begin(store, tiny_study, config, None, "cpu") == (run, job)
    assert jobs.get_job(store, job)["status"] == "queued"
    store.execute("UPDATE jobs SET status = 'done' WHERE id = ?", [job])
    other, _ = together.begin(store, tiny_study, config, None, "cpu")
    assert other != run
