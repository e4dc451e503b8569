"""Runs an experiment: every arm with every seed, through the same pipeline as the page; what is done is kept.

Stopped and started again it goes on where it was: a run is found by its name, which says all that made it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import numpy as np
import torch

from core.engine.backbones.embed import remembering
from core.engine.backbones.encoder import load_centres, load_encoder
from core.engine.detectors.lesion_head.synth import judge
from core.engine.objectives.config import PretrainConfig
from core.engine.rows import rows_of
from core.engine.training import checkpoint
from core.engine.training.pretraining import Data, Pretraining
from core.studio.db.store import Store
from core.studio.ingest.studies import load_arrays
from core.studio.report.arms import Arm, fitted
from core.studio.runs import records as runs
from core.studio.runs.readings import size_of
from core.studio.runs.results import evaluate_run
from core.studio.runs.scoring import load_detector
from tests.benches.experiments.report import SYNTHETIC
from tests.benches.recipes import purity

Report = Callable[[str], None]


def run_plan(
    store: Store,
    study: str,
    arms: list[Arm],
    seeds: list[int],
    *,
    size: int,
    device: str = "auto",
    bootstrap: int = 1000,
    judged: bool = False,
    inside: bool = False,
    report: Report = print,
) -> list[dict]:
    """Runs every arm with every seed; returns one row of metrics per arm, seed and region of interest.

    A row also has `label`, `seed` and `dice_best`. size: side of the images, whatever the presets say. Rows are those
    of `results.evaluate_run`; `dice_best` takes the one threshold that is best on the test images (optimistic), `dice`
    the one from held-out normals. judged: rows with the region of interest also hold what `synthetic` gives; a recipe
    is chosen by that, not by the test's figures. inside: rows with the region of interest alone, which take half the
    time. `training` of a row is what `training_of` gives for its encoder.
    """
    rows = []
    with remembering():  # arms of one encoder share its maps
        for seed, arm in itertools.product(seeds, arms):
            fit = fitted(store, study, arm, seed, size=size, device=device)
            training = training_of(store, runs.get_run(store, fit)["parent"])
            for roi in (True,) if inside else (True, False):
                best = evaluate_run(store, fit, roi, pixel_rule="best-dice", bootstrap=0)
                row = evaluate_run(store, fit, roi, bootstrap=bootstrap)
                row |= {"label": arm.label, "seed": seed, "dice_best": best.get("dice"), "iou_best": best.get("iou")}
                row["training"] = training
                if judged and roi:
                    row |= synthetic(store, fit)
                rows.append(row)
                if roi:
                    report(_line(study, row))
    return rows


@functools.cache
def training_of(store: Store, encoder: str) -> dict:
    """Returns how well a trained encoder tells the classes of held-out normals apart; {} if it was not trained.

    The figures are those of the last validation and of `recipes.purity`; `alarms`, the number of steps with an alarm;
    `steps` and `seconds`.
    """
    run = runs.get_run(store, encoder)
    if not run["config"].get("epochs"):
        return {}
    config, folder = PretrainConfig.from_dict(runs.settings_of(run["config"])), runs.run_folder(store, encoder)
    arrays = load_arrays(store, run["study"], config.size)
    train, held = (
        Data(rows_of(arrays.images, rows), rows_of(arrays.roi, rows))
        for rows in (arrays.index("train"), arrays.index("holdout", label="normal"))
    )
    training = Pretraining(config, train, torch.device("cpu"))
    learnt = load_encoder(folder).state_dict()
    training.encoder.load_state_dict({name: learnt[name] for name in training.encoder.state_dict()})
    training.centres = load_centres(folder)
    steps = checkpoint.history(folder)
    figures = {name: step[name] for step in steps for name in ("val_accuracy", "val_auroc") if name in step}
    figures |= purity(training, held) | {"alarms": sum(bool(step.get("alarm")) for step in steps)}
    return figures | {"steps": steps[-1]["step"], "seconds": run["seconds"]}


def synthetic(store: Store, fit: str) -> dict:
    """Judges a fit on synthetic lesions in the study's held-out normals.

    Returns means over families of lesion that it was not trained on (`synthetic_auroc`, `synthetic_pixel_auroc`) and
    each family's own (`families`).
    """
    run = runs.get_run(store, fit)
    arrays = load_arrays(store, run["study"], size_of(store, run))
    held = arrays.index("holdout", label="normal")
    detector = load_detector(store, fit)
    judged = judge(detector, rows_of(arrays.images, held), rows_of(arrays.roi, held))
    if not judged:
        raise ValueError("no lesion of any family can be seen in the held-out normal images at this size")
    means = {f"synthetic_{k}": float(np.mean([v[k] for v in judged.values()])) for k in ("auroc", "pixel_auroc")}
    return {**means, "families": judged}


def _line(study: str, row: dict) -> str:
    numbers = [
        f"{k} {row[k]:.3f}"
        for k in ("auroc", "pixel_auroc", "dice", "dice_best", "pro", *SYNTHETIC)
        if row.get(k) is not None
    ]
    return f"{study} seed {row['seed']} {row['label']}: {', '.join(numbers)}, {row['seconds']:.0f} s"
