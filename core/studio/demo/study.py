"""The demo study, drawn by our own code from a seed: ready as a bundle, or drawn here, and what is run on it."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from core.engine.registry import DETECTORS
from core.studio.bundle import import_bundle
from core.studio.db import leftovers
from core.studio.db.store import Store
from core.studio.demo.drawing import FOLDERS, MASKS, draw
from core.studio.ingest.studies import import_study
from core.studio.jobs import queue as jobs
from core.studio.jobs import stopping
from core.studio.runs import bin
from core.studio.runs.look import NAME
from core.studio.runs.pipeline import chain, create_fit, create_pretrain, create_untrained
from core.studio.runs.records import get_run, list_runs
from core.studio.runs.results import baseline_row, evaluate_run
from core.studio.training.live import total_steps

READY = Path(__file__).with_name("demo.zip")  # made by `python -m tests.tools.demo`
READER = "demo reader"  # whose marks the ready study holds
CAME = "demo:ready"  # the setting that holds the ids of the runs that came with it

COUNTS = {"train": 240, "test_normal": 80, "test_abnormal": 80}
SIDE = 256  # of the frames as they are drawn; training has its own size
DETECTORS_SHOWN = ("lesion-head", "padim", "igd")

BEHIND = {"gives_way": True}  # of each step: other work goes first

Progress = Callable[[int, int], None]


def demo_id(seed: int) -> str:
    """Returns the id of the demo study of a seed: the first demo is simply 'demo'."""
    return "demo" if seed == 0 else f"demo-{seed}"


def undrawn(store: Store, study: str) -> int | None:
    """Returns the seed of the demo study of this id that is neither drawn yet nor in the bin.

    None for any other study.
    """
    tail = study.removeprefix("demo-")
    seed = int(tail) if tail.isascii() and tail.isdigit() else 0
    if study != demo_id(seed) or store.one("SELECT 1 FROM studies WHERE id = ?", [study]):
        return None
    return seed


def make_demo(
    store: Store,
    seed: int = 0,
    counts: dict[str, int] | None = None,
    side: int | None = None,
    on_progress: Progress | None = None,
) -> str:
    """Draw the study of a seed into the home (PNG, masks beside) and import it; one that is there is left as it is."""
    study = demo_id(seed)
    there = store.one("SELECT binned FROM studies WHERE id = ?", [study])
    if there:
        if there["binned"]:
            bin.restore(store, "study", study, "demo")
        return study
    counts, side = {**COUNTS, **(counts or {})}, side or SIDE
    folder = store.home.files / study
    shutil.rmtree(folder, ignore_errors=True)
    for name in (*FOLDERS.values(), MASKS):
        (folder / name).mkdir(parents=True)
    tasks = [(seed, split, i, side, str(folder)) for split, n in counts.items() for i in range(n)]
    # Spawned, not forked: the page's process has threads.
    workers = max(1, min(os.cpu_count() or 1, len(tasks) // 16))
    with leftovers.holding(folder):
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            for done, _ in enumerate(pool.map(draw, tasks, chunksize=8), start=1):
                if on_progress:
                    on_progress(done, len(tasks))
        import_study(store, study, folder, layout="plain")
    return study


def shown_detectors() -> list[str]:
    """Returns the names of those of DETECTORS_SHOWN that there are."""
    return [name for name in DETECTORS_SHOWN if name in DETECTORS.names()]


def create_demo_runs(store: Store, study: str, seed: int = 0, **changes) -> dict[str, str]:
    """Creates the demo's runs, by name: 'pretrain', one per detector on it, 'untrained', 'untrained padim'.

    changes: to the preset.
    """
    from core.engine.training.pretrain import PRETRAIN_PRESETS

    config = PRETRAIN_PRESETS["quick"].replace(**{"seed": seed, "encoder.seed": seed, **changes})
    runs_made = {"pretrain": create_pretrain(store, study, config)}
    for name in shown_detectors():
        runs_made[name] = create_fit(store, runs_made["pretrain"], name, DETECTORS.get(name).preset())
    runs_made["untrained"] = create_untrained(store, study, config.size, seed)
    runs_made["untrained padim"] = create_fit(store, runs_made["untrained"], "padim", DETECTORS.get("padim").preset())
    return runs_made


def demo_steps(runs: dict[str, str], evaluate: bool = False, **args) -> list[dict]:
    """Returns one chain of steps for all of the demo's runs."""
    fits = [run for name, run in runs.items() if name not in ("pretrain", "untrained", "untrained padim")]
    steps = chain(runs["pretrain"], fits, evaluate=evaluate, **args)
    return steps + chain(runs["untrained"], [runs["untrained padim"]], evaluate=evaluate, **args)


def demo_rows(store: Store, study: str, runs: dict[str, str], size: int, protocol: str = "held-out") -> list[dict]:
    """Evaluates all detectors and the baseline, with and without the region of interest: a row each."""
    fits = [run for name, run in runs.items() if name not in ("pretrain", "untrained")]
    rows = [evaluate_run(store, run, roi, protocol) for run in fits for roi in (True, False)]
    return rows + [baseline_row(store, study, size, roi, protocol) for roi in (True, False)]


def is_fresh(store: Store) -> bool:
    """Return whether the home has had no study yet."""
    return store.one("SELECT 1 FROM studies") is None


def offer(store: Store, device: str = "auto") -> int | None:
    """Imports the ready demo study, and queues the weights of its first look, which learning from marks needs.

    It comes scored, with a training, maps, marks and what was learnt from them; weights stay out of the bundle. Returns
    the job; None if the study is there already. One in the bin is restored.
    """
    study = demo_id(0)
    DETECTORS.names()  # imports torch, for which other writers would wait below
    with store.write():
        there = store.one("SELECT binned FROM studies WHERE id = ?", [study])
        if there and there["binned"]:
            bin.restore(store, "study", study, READER)
        if there:
            return None
        import_bundle(store, READY, READER)
        came = list_runs(store, study)
        store.set_setting(CAME, [run["id"] for run in came])
        looks = [run for run in came if run["name"] == NAME]
        steps = [
            {"step": "weights", "run": run, "args": {"device": device}}
            for fit in looks
            for run in (fit["parent"], fit["id"])
        ]
        job = jobs.submit(store, steps, start=False)
        _own(store, job)
        return job


def train(store: Store, device: str = "auto") -> int:
    """Queues the demo's training and its detectors on this machine, behind all other work; returns the job."""
    study = demo_id(0)

    def steps() -> list[dict]:
        runs_made = create_demo_runs(store, study)
        listed = demo_steps(runs_made, evaluate=True, device=device, **BEHIND)
        # The map at once after the training: Clusters then has it while the detectors are fitted.
        args = {"config": film(store, runs_made["pretrain"]), **BEHIND}
        return [listed[0], {"step": "embed", "run": runs_made["pretrain"], "args": args}, *listed[1:]]

    job = jobs.once(store, ["demo", study], steps, start=False)["id"]
    _own(store, job)
    return job


OWN, PAUSED = "demo:jobs", "demo:paused"  # settings: ids of the jobs that the demo queued, and of those paused


def pause(store: Store) -> list[int]:
    """Pauses the demo's own jobs while no page is open, and returns their ids. What people have queued goes on."""
    paused = stopping.pause(store, set(store.setting(OWN, [])))
    if paused:
        store.set_setting(PAUSED, paused)
    return paused


def go_on(store: Store) -> None:
    """Resumes the demo's jobs that `pause` has paused."""
    paused = store.setting(PAUSED, [])
    if paused:
        store.set_setting(PAUSED, [])
        stopping.resume(store, paused)


def _own(store: Store, job: int) -> None:
    with store.write():
        store.set_setting(OWN, [*store.setting(OWN, []), job])


def film(store: Store, run: str) -> dict:
    """Returns the configuration of the map that Clusters opens with.

    It is t-SNE of every epoch that the training will save.
    """
    from core.studio.clusters.config import MapConfig

    row = get_run(store, run)
    last, every = total_steps(store, row)["epochs"], row["config"]["snapshot_every"]
    epochs = sorted({*range(0, last, every), last})
    return MapConfig(feature="projected", epochs=tuple(epochs)).to_dict()
