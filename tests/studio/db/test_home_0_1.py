"""A home of version 0.1.0 opens with its runs, reviews, jobs and maps."""

import sqlite3

import numpy as np
import pytest
import torch
import torchvision

from core.engine.backbones.embed import encode
from core.engine.backbones.encoder import load_encoder
from core.studio.clusters import library
from core.studio.db import audit, migrate
from core.studio.db import store as stores
from core.studio.ingest.studies import show_study
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.review import decisions
from core.studio.review.cases import scored_runs
from core.studio.runs import records as runs
from core.studio.runs.readings import read_maps
from core.studio.runs.results import evaluations
from core.studio.runs.scoring import load_detector
from tests.studio.db.home_0_1 import ENCODER, FIT, MAP, build, encoder_weights
from tests.studio.review.conftest import decide


@pytest.fixture
def old(tmp_path):
    """The folder of a home as 0.1.0 left it."""
    build(tmp_path / "old")
    return tmp_path / "old"


@pytest.fixture
def opened(old):
    store = stores.open(str(old))
    yield store
    store.close()


def applied(home) -> list[tuple]:
    db = sqlite3.connect(home / "studio.sqlite")
    rows = db.execute("SELECT name, applied_at FROM _sqlite_migrations ORDER BY id").fetchall()
    db.close()
    return rows


def test_each_migration_is_applied_once(old):
    before = applied(old)
    assert "0220_worklist_facts" in dict(before) and "0220_burned_in_text" in dict(before)
    stores.open(str(old)).close()
    after = applied(old)
    assert sorted(name for name, _ in after) == migrate.names()
    kept = {"0221_worklist_facts" if name == "0220_worklist_facts" else name: at for name, at in before}
    assert kept.items() <= dict(after).items(), "what 0.1.0 had applied is not applied again"
    stores.open(str(old)).close()
    assert applied(old) == after


def test_study_runs_readings_and_results_are_there(opened):
    study = show_study(opened, "old")
    assert study["counts"] == {"holdout normal": 2, "test abnormal": 2, "test normal": 2, "train normal": 6}
    assert study["masks"] == 2
    listed = [(r["id"], r["kind"], r["status"], r["parent"]) for r in runs.list_runs(opened, "old")]
    assert listed == [(ENCODER, "pretrain", "done", None), (FIT, "fit", "done", ENCODER)]
    assert [r["title"] for r in scored_runs(opened, "old")] == ["PaDiM"]
    assert read_maps(opened, FIT, np.arange(7, 13)).shape == (6, 8, 8)
    assert [row["auroc"] for row in evaluations(opened, "old", FIT)] == [0.75]


def test_reviews_are_there_and_the_audit_trail_is_unbroken(opened):
    assert [h["decision"] for h in decisions.history(opened, 12)].count("abnormal") == 1
    counting = opened.query("SELECT case_id, decision FROM current_reviews WHERE reader = 'ann' AND stage = 'first'")
    assert all({"case_id": case, "decision": "abnormal"} in counting for case in (9, 12))
    found = audit.verify(opened)
    assert found["ok"] and found["events"] == 4, found["problems"]
    decide(opened, 10, "ann", "normal", run=FIT)
    assert audit.verify(opened)["ok"]


def test_the_map_is_listed_and_opens_and_its_projection_is_kept(opened):
    assert [m["key"] for m in library.list_maps(opened, "old")] == [MAP]
    found = library.open_map(opened, MAP)
    assert found.coords.shape == (1, 16, 2) and len(found.points.case_id) == 16
    assert opened.one("SELECT title FROM cluster_projected WHERE map = ?", [MAP])["title"] == "Two new images"


def test_the_encoder_gives_the_features_of_its_weights(opened):
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
    encoder = load_encoder(runs.run_folder(opened, ENCODER))
    found = encode(encoder, images, "backbone", device="cpu")
    net = torchvision.models.resnet18(weights=None)
    net.fc = torch.nn.Identity()
    weights = encoder_weights()
    net.load_state_dict({k.removeprefix("net."): v for k, v in weights.items() if k.startswith("net.")})
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    x = (torch.from_numpy(images).float() / 255 - mean) / std
    with torch.no_grad():
        expected = net.eval()(x.permute(0, 3, 1, 2)).numpy()
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.slow
def test_the_detector_scores_and_waiting_jobs_are_done(opened):
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
    assert load_detector(opened, FIT, "cpu").predict(images).maps.shape == (2, 8, 8)
    waiting = jobs.list_jobs(opened, "queued")
    assert [(j["id"], j["queue"], j["step"]) for j in waiting] == [(2, "short", "import"), (1, "short", "score")]
    assert [one["step"] for one in waiting[1]["chain"]] == ["score", "evaluate"]
    assert worker.run_queue(opened, "short") == 2
    assert [j["error"] for j in jobs.list_jobs(opened) if j["status"] != "done"] == []
    assert opened.query("SELECT path, state FROM incoming") == [{"path": "/data/colon/new.png", "state": "failed"}]
