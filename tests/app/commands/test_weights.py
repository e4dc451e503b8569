"""The verbs of training: weights files on the list, and `torchrun` with two processes."""

import hashlib
import json
import os
import subprocess
import sys

import pytest
import timm
import torch

from app.commands import main
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.studio.clusters import library
from core.studio.db import journal
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.runs import pipeline
from core.studio.runs import records as runs
from tests.app.routes.clients import client_of
from tests.conftest import ROOT

ARCH = "vit_small_patch14_dinov2"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """As DINOv2's authors name it, positions of 224 pixels."""
    torch.manual_seed(0)
    state = timm.create_model(ARCH, num_classes=0, img_size=224).state_dict()
    path = tmp_path_factory.mktemp("weights") / "dinov2_vits14_pretrain.pth"
    torch.save({**state, "mask_token": torch.zeros(1, 384)}, path)
    return path


def call(capsys, home, *argv):
    """(status, the object of --json, stderr)"""
    status = main([*map(str, argv), "--home", str(home.path), "--json"])
    out, err = capsys.readouterr()
    return status, json.loads(out.splitlines()[-1]), err


@pytest.mark.long
def test_a_file_goes_from_the_list_into_a_look_a_training_and_the_page(capsys, store, tiny_study, file, monkeypatch):
    home = store.home
    monkeypatch.setattr(jobs, "ensure_worker", worker.run_queue)
    status, said, err = call(capsys, home, "weights", "add", file, "--arch", ARCH)
    assert status and "--licence" in said["error"]
    status, said, _ = call(capsys, home, "weights", "add", file, "--arch", "resnet18", "--licence", "x")
    assert status and "not a resnet18" in said["error"]
    status, said, _ = call(capsys, home, "weights", "add", file, "--arch", ARCH, "--licence", "Apache-2.0")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert status == 0 and said["sha256"] == digest and said["weights"] == file.name
    status, said, _ = call(capsys, home, "weights", "list")
    assert said["weights"][-1] == file.name
    assert said["files"] == {file.name: {"arch": ARCH, "licence": "Apache-2.0", "sha256": digest}}

    status, said, err = call(
        capsys, home, "look", tiny_study, "--init", file.name, "--size", 56, "--detector", "nearest"
    )
    assert status == 0, err
    looked = runs.run_folder(store, said["runs"]["encoder"])
    origin = json.loads((looked / "encoder.json").read_text())["origin"]
    assert origin["licence"] == "Apache-2.0" and origin["source"].endswith(file.name)
    assert store.one("SELECT count(*) AS n FROM readings WHERE run = ?", [said["runs"]["fit"]])["n"] == 18
    (shown,) = library.list_maps(store, tiny_study)
    assert shown["ready"] and shown["run"] == said["runs"]["encoder"], "Clusters shows the study after a look by verb"

    short = ["--set", "steps=1", "--set", "batch=2", "--set", "fit_size=56"]
    status, said, err = call(capsys, home, "pretrain", tiny_study, "--init", file.name, "--size", 56, *short)
    assert status == 0 and said["status"] == "done", err
    assert runs.get_run(store, said["run"])["config"]["encoder"]["arch"] == ARCH
    status, said, _ = call(capsys, home, "pretrain", tiny_study, "--init", file.name, "--arch", "resnet18")
    assert status and f"holds weights of {ARCH}" in said["error"]

    monkeypatch.setattr(jobs, "ensure_worker", lambda store: None)
    page = client_of(store)
    forms = page.get("/api/training/forms").json()
    assert forms["archs"] == {file.name: ARCH}
    options = {f["key"]: f["options"] for group in forms["encoder"] for f in group["fields"] if "options" in f}
    assert file.name in options["init"] and ARCH in options["arch"]
    config = forms["presets"]["quick"]
    config["encoder"] |= {"init": file.name}
    refused = page.post("/api/training/check", json={"config": config})
    assert refused.status_code == 400 and refused.json()["error"].startswith("arch: ")
    config["encoder"] |= {"arch": ARCH}
    begun = page.post("/api/training/start", json={"study": tiny_study, "config": config, "detectors": {}}).json()
    assert runs.get_run(store, begun["run"])["config"]["encoder"]["init"] == str(home.path / "weights" / file.name)


def test_a_file_that_was_changed_since_is_refused(store, file, tmp_path):
    from core.engine.backbones import weights
    from core.studio.training import first_weights

    first_weights.add(store, file, "root", "", "Apache-2.0")
    place = first_weights.folder_of(store) / file.name
    assert weights.describe_weights(place)["licence"] == "Apache-2.0"
    place.write_bytes(b"other")
    with pytest.raises(weights.BadWeights, match="add it again"):
        weights.describe_weights(place)
    first_weights.remove(store, file.name, "root")
    assert not list(first_weights.folder_of(store).iterdir())


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
