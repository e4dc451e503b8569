"""The demo's training on this machine gives way to other work."""

import pytest

from core.engine.progress import Stopped
from core.engine.training.pretrain import PRETRAIN_PRESETS
from core.studio.clusters.config import MapConfig
from core.studio.demo import study as demo
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.runs import records as runs
from core.studio.runs.pipeline import chain, create_fit, create_pretrain, create_untrained, pretrain_run
from core.studio.runs.weights import snapshots
from tests.conftest import ARCH, wait
from tests.studio.jobs.conftest import replace_step


@pytest.fixture
def trained_here(store, tiny_study, monkeypatch):
    """Asks for the demo's training, of which one run is enough here."""
    monkeypatch.setattr(demo, "STUDY", tiny_study)
    monkeypatch.setattr(
        demo,
        "training_steps",
        lambda store, device: chain(create_untrained(store, tiny_study, 32), device=device, **demo.BEHIND),
    )
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
    replace_step(monkeypatch, "pretrain", training)
    replace_step(monkeypatch, "embed", lambda work: None)
    replace_step(monkeypatch, "fit", lambda work: order.append("own"))
    job = trained_here()
    assert trained_here() == job, "asked for twice, it is one job"
    worker.run_queue(store)
    assert order == ["demo", "own", "demo"]
    assert jobs.get_job(store, job)["status"] == jobs.get_job(store, own[0])["status"] == "done"


def test_a_waiting_training_of_the_demo_is_claimed_last(store, trained_here):
    first = trained_here()
    run = create_untrained(store, "tiny", 32, arch=ARCH)
    own = jobs.submit(store, [{"step": "fit", "run": create_fit(store, run, "padim")}], start=False)
    assert jobs.claim(store, "long")["id"] == own > first


@pytest.mark.long
def test_the_film_shows_every_epoch_that_is_saved(store, tiny_study):
    """What is asked for before the training is what the training leaves."""
    run = create_pretrain(
        store,
        tiny_study,
        PRETRAIN_PRESETS["quick"].replace(size=32, epochs=3, snapshot_every=2, batch=8, **{"encoder.arch": ARCH}),
    )
    pretrain_run(store, run, "cpu")
    config = MapConfig.from_dict(demo.film(store, run))
    assert list(config.epochs) == [s.epoch for s in snapshots(store, runs.get_run(store, run))] == [0, 2, 3]
