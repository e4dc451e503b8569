"""The demo from end to end, small: drawn, imported, trained, fitted, scored, evaluated."""

import inspect
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from core.engine.progress import Stopped
from core.engine.training.pretrain import PRETRAIN_PRESETS
from core.studio.clusters.config import MapConfig
from core.studio.demo import drawing
from core.studio.demo import study as demo
from core.studio.jobs import execution, steps, worker
from core.studio.jobs import queue as jobs
from core.studio.runs import records as runs
from core.studio.runs.pipeline import chain, create_fit, create_pretrain, create_untrained, pretrain_run
from core.studio.runs.snapshots import snapshots
from tests.conftest import ARCH, wait

ROOT = Path(__file__).resolve().parents[3]
COUNTS = {"train": 20, "test_normal": 5, "test_abnormal": 5}


@pytest.mark.long
def test_the_demo_from_end_to_end(store, monkeypatch):
    study = demo.make_demo(store, 3, COUNTS, side=64)
    assert study == "demo-3" == demo.make_demo(store, 3), "drawn once"
    made = demo.create_demo_runs(store, study, 3, size=64, epochs=1, batch=5, centre_images=5)
    for name in set(made) - {"pretrain", "untrained", "padim", "untrained padim"}:
        store.execute("DELETE FROM runs WHERE id = ?", [made.pop(name)])  # their own tests train them
    job = jobs.submit(store, demo.demo_steps(made, device="cpu"), start=False)
    worker.run_queue(store)
    assert jobs.get_job(store, job)["status"] == "done", jobs.get_job(store, job)["error"]
    rows = demo.demo_rows(store, study, made, 64)
    assert {(r["encoder"], r["detector"], r["roi"]) for r in rows} == {
        (encoder, detector, roi)
        for encoder, detector in (("pmsacl", "padim"), ("untrained", "padim"), (None, "mean-colour"))
        for roi in (True, False)
    }
    keys = {
        "encoder",
        "detector",
        "roi",
        "protocol",
        "auroc",
        "auroc_ci",
        "pixel_auroc",
        "dice",
        "iou",
        "pro",
        "seconds",
    }
    assert all(keys <= set(row) for row in rows)


@pytest.mark.slow
def test_the_same_seed_draws_the_same_study(store):
    demo.make_demo(store, 1, {"train": 2, "test_normal": 1, "test_abnormal": 1}, side=64)
    folder = store.home.files / "demo-1"
    first = {p.name: cv2.imread(str(p)) for p in folder.rglob("*.png")}
    from core.engine.phantom import frame as study

    drawn = study.draw_study(1, 2, 1, 1, 64)
    assert (first["train-0001.png"][..., ::-1] == drawn["train"][1]).all()
    mask = cv2.imread(str(folder / "test/mask/abnormal-0000.png"), cv2.IMREAD_GRAYSCALE)
    assert (np.asarray(mask > 0) == drawn["masks"][0]).all()


def test_what_draws_the_cases_begins_without_torch():
    """Each drawing process imports the module anew: with torch that took longer than the drawing."""
    line = "import sys; from core.studio.demo import drawing; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", line], cwd=ROOT, timeout=120).returncode == 0
    assert inspect.getmodule(demo.draw) is drawing


@pytest.fixture
def trained_here(store, tiny_study, monkeypatch):
    """Asks for the demo's training, of which one run is enough here."""
    monkeypatch.setattr(demo, "demo_id", lambda seed: tiny_study)
    monkeypatch.setattr(demo, "create_demo_runs", lambda store, study: {"pretrain": create_untrained(store, study, 32)})
    monkeypatch.setattr(demo, "film", lambda store, run: {})
    monkeypatch.setattr(demo, "demo_steps", lambda runs, **args: chain(runs["pretrain"], **args))
    return lambda: demo.train(store, "cpu")


def test_own_work_goes_before_the_demos_training_which_goes_on_after_it(store, trained_here, monkeypatch):
    """A claimed training of the demo stops where other work waits, and is claimed again when that is done."""
    run = create_untrained(store, "tiny", 32, arch=ARCH)
    order = []

    def training(work):
        order.append("demo")
        if order.count("demo") == 1:
            own.append(jobs.submit(store, [{"step": "fit", "run": create_fit(store, run, "padim")}], start=False))
            if wait(work.should_stop):
                raise Stopped

    own: list[int] = []
    monkeypatch.setitem(steps._STEPS, "pretrain", training)
    monkeypatch.setitem(steps._STEPS, "embed", lambda work: None)
    monkeypatch.setitem(steps._STEPS, "fit", lambda work: order.append("own"))
    job = trained_here()
    assert trained_here() == job, "asked for twice, it is one job"
    worker.run_queue(store)
    assert order == ["demo", "own", "demo"]
    assert jobs.get_job(store, job)["status"] == jobs.get_job(store, own[0])["status"] == "done"


def test_a_waiting_training_of_the_demo_is_claimed_last(store, trained_here):
    first = trained_here()
    run = create_untrained(store, "tiny", 32, arch=ARCH)
    own = jobs.submit(store, [{"step": "fit", "run": create_fit(store, run, "padim")}], start=False)
    assert execution.claim(store, "long")["id"] == own > first


@pytest.mark.long
def test_the_film_shows_every_epoch_that_is_saved(store, tmp_path):
    """What is asked for before the training is what the training leaves."""
    study = demo.make_demo(store, counts={"train": 24, "test_normal": 2, "test_abnormal": 2}, side=64)
    run = create_pretrain(
        store,
        study,
        PRETRAIN_PRESETS["quick"].replace(size=32, epochs=3, snapshot_every=2, batch=8, **{"encoder.arch": ARCH}),
    )
    pretrain_run(store, run, "cpu")
    config = MapConfig.from_dict(demo.film(store, run))
    assert list(config.epochs) == [s.epoch for s in snapshots(store, runs.get_run(store, run))] == [0, 2, 3]
