"""Imports the demo study (a bundle of synthetic images and finished runs), and trains new models on its images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.registry import DETECTORS
from core.studio.bundle import import_bundle
from core.studio.db.store import Store
from core.studio.demo import STUDY
from core.studio.jobs import queue as jobs
from core.studio.jobs import stopping
from core.studio.runs import bin
from core.studio.runs.look import NAME
from core.studio.runs.pipeline import chain, create_fit, create_pretrain, create_untrained
from core.studio.runs.records import get_run, list_runs
from core.studio.training.live import total_steps

READY = Path(__file__).with_name("demo.zip")  # made by `python -m tests.tools.demo`
READER = "demo reader"  # reader of the annotations in the bundle
CAME = "demo:ready"  # setting with the ids of the runs in the bundle
FITTED = ("lesion-head", "padim", "igd")

BEHIND = {"gives_way": True}  # argument of each step that lets other jobs run first


def is_fresh(store: Store) -> bool:
    """Returns whether the home contains no studies, not even in the bin."""
    return store.one("SELECT 1 FROM studies") is None


def offer(store: Store, device: str = "auto") -> int | None:
    """Imports the demo study, and queues a job that recomputes the weights of the study's runs named "First look".

    The bundle contains scores, maps and annotations, but no weights, which are needed to learn from annotations.
    Returns the id of the job, or None if the study already exists. If the study is in the bin, it is restored instead.
    """
    DETECTORS.names()  # imports torch now, so that other writers do not wait for it below
    with store.write():
        existing = store.one("SELECT binned FROM studies WHERE id = ?", [STUDY])
        if existing and existing["binned"]:
            bin.restore(store, "study", STUDY, READER)
        if existing:
            return None
        import_bundle(store, READY, READER)
        imported_runs = list_runs(store, STUDY)
        store.set_setting(CAME, [run["id"] for run in imported_runs])
        looks = [run for run in imported_runs if run["name"] == NAME]
        steps = [
            {"step": "weights", "run": run, "args": {"device": device}}
            for fit in looks
            for run in (fit["parent"], fit["id"])
        ]
        job = jobs.submit(store, steps, start=False)
        _own(store, job)
        return job


def train(store: Store, device: str = "auto") -> int:
    """Queues a job with the steps of `training_steps`, which runs after all other jobs; returns the id of the job."""
    job = jobs.once(store, ["demo", STUDY], lambda: training_steps(store, device), start=False)["id"]
    _own(store, job)
    return job


def training_steps(store: Store, device: str) -> list[dict]:
    """Creates the runs for `train` and returns the steps of their job.

    The job pre-trains an encoder, draws its map, fits three detectors on it, and fits PaDiM on an untrained encoder.
    """
    config = PRETRAIN_PRESETS["quick"]
    encoder, untrained = create_pretrain(store, STUDY, config), create_untrained(store, STUDY, config.size)
    fits = [create_fit(store, encoder, name, DETECTORS.get(name).preset()) for name in FITTED]
    untrained_fit = create_fit(store, untrained, "padim", DETECTORS.get("padim").preset())
    args: dict[str, Any] = {"device": device, "evaluate": True, **BEHIND}
    training, *scoring = chain(encoder, fits, **args)
    # The map follows directly after pre-training, so that Clusters shows the map while detectors are fitted.
    embed = {"step": "embed", "run": encoder, "args": {"config": film(store, encoder), **BEHIND}}
    return [training, embed, *scoring, *chain(untrained, [untrained_fit], **args)]


OWN, PAUSED = "demo:jobs", "demo:paused"  # settings: ids of the jobs that the demo queued, and of those paused


def pause(store: Store) -> list[int]:
    """Pauses only the jobs that the demo queued; returns the ids of these jobs. The server calls this when it stops."""
    paused = stopping.pause(store, set(store.setting(OWN, [])))
    if paused:
        store.set_setting(PAUSED, paused)
    return paused


def go_on(store: Store) -> None:
    """Resumes the jobs that `pause` paused."""
    paused = store.setting(PAUSED, [])
    if paused:
        store.set_setting(PAUSED, [])
        stopping.resume(store, paused)


def _own(store: Store, job: int) -> None:
    with store.write():
        store.set_setting(OWN, [*store.setting(OWN, []), job])


def film(store: Store, run: str) -> dict:
    """Returns the `MapConfig`, as a dictionary, of the map that the Clusters tab opens first for a pre-training run.

    The map is a t-SNE embedding of all epochs for which the run will save a snapshot.
    """
    from core.studio.clusters.config import MapConfig

    row = get_run(store, run)
    last, every = total_steps(store, row)["epochs"], row["config"]["snapshot_every"]
    epochs = sorted({*range(0, last, every), last})
    return MapConfig(feature="projected", epochs=tuple(epochs)).to_dict()
