"""Measures before a training whether MedMix's classes are too easy, too hard, or unlike real lesions."""

from __future__ import annotations

import time

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from core.engine.augment.config import WeakConfig
from core.engine.augment.strong import Mixed
from core.engine.augment.weak import WeakViews
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder, load_encoder
from core.engine.progress import Stop, Stopped
from core.engine.tensors import to_batch
from core.studio.db.store import Store
from core.studio.jobs.steps import never
from core.studio.medmix.lesion_similarity import OUT_OF_SUPPORT, lesion_similarity
from core.studio.medmix.preview import Scene, strong_of
from core.studio.medmix.samples import Samples
from core.studio.runs import records as runs
from core.studio.runs import weights

SIDE, IMAGES, VIEWS = 64, 96, 8
SEEN = 0.5  # a lesion is still in a view if half of it, as the view enlarges it, is


@torch.inference_mode()
def probe(
    store: Store,
    scene: Scene,
    run: str | None = None,
    lesions_hidden: bool = False,
    should_stop: Stop = never,
) -> dict:
    """Measures how well a linear probe on an encoder separates the classes of a scene.

    run: an encoder's run, "latest" for the study's newest finished one with its files (if any), or None for an
    untrained encoder. lesions_hidden: whether real lesions are not used, because their cases are still read blind.
    should_stop: called before each class; Stopped is raised if it returns True.

    Returns {"accuracy", "chance", "lesion_accuracy", "confusion" (row: true class), "survival", "lost", "near",
    "words", "seconds", "images", "side", "encoder", "study"}. lesion_accuracy: balanced accuracy of lesions against
    none; 0.5 is chance. survival: mean share of a lesion's pixels that a weak crop keeps. lost: share of views of A_1
    and above that keep less than half of them. near: the result of `lesion_similarity`, or None.
    """
    started = time.perf_counter()
    if run == "latest":
        trained = runs.list_runs(store, scene.study, "pretrain")
        done = [r["id"] for r in trained if r["status"] == "done" and weights.there(store, r["id"])]
        run = done[-1] if done else None
    samples = Samples(store, most=2 * IMAGES)
    cases = list({c["id"]: c for c in samples.normals(scene.study, scene.seed, IMAGES)}.values())
    images, roi = samples.load(cases, SIDE)
    strong = strong_of(samples, scene, SIDE, lesions_hidden)
    weak = WeakViews(WeakConfig.from_dict(scene.weak_config))
    encoder = _encoder(store, run)
    x, inside = to_batch(images, torch.device("cpu")), torch.from_numpy(roi)
    features, survivals = [], []
    labels: list[int] = []
    groups: list[int] = []
    lesions: Mixed | None = None
    for n in range(strong.k + 1):
        if should_stop():
            raise Stopped
        mixed = strong(x, n, torch.Generator().manual_seed(scene.seed * 8 + n), inside)
        views, masks = weak.with_masks(mixed.images, torch.Generator().manual_seed(n), mixed.masks)
        features.append(_features(encoder, views))
        labels += [n] * len(x)
        groups += range(len(x))
        if n == 1:
            lesions = mixed
        if n:
            survivals.append(_survival(weak, mixed.masks, scene.seed + n))
    z, y = np.concatenate(features), np.array(labels)
    # Views of one image stay on one side, or the probe would know the image and not its class.
    folds = GroupKFold(n_splits=min(5, len(x)))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.05))
    predicted = cross_val_predict(model, z, y, groups=np.array(groups), cv=folds)
    accuracy, chance = float((predicted == y).mean()), 1 / (strong.k + 1)
    survival = np.concatenate(survivals) if not np.isnan(survivals[0]).any() else None
    figures = {
        "accuracy": accuracy,
        "chance": chance,
        "lesion_accuracy": float(((predicted[y == 0] == 0).mean() + (predicted[y > 0] > 0).mean()) / 2),
        "confusion": confusion_matrix(y, predicted, labels=range(strong.k + 1)).tolist(),
        "survival": None if survival is None else float(survival.mean()),
        "lost": None if survival is None else float((survival < SEEN).mean()),
        "near": None
        if lesions_hidden
        else lesion_similarity(store, scene.study, lambda images: _features(encoder, images), x, lesions),
        "images": len(x),
        "side": SIDE,
        "encoder": run or "untrained",
        "study": scene.study,
    }
    return {**figures, "words": words(figures), "seconds": time.perf_counter() - started}


def words(figures: dict) -> list[dict]:
    """Returns sentences on what the numbers mean: [{"kind": "good"|"warn", "text"}]."""
    findings = []
    above = (figures["accuracy"] - figures["chance"]) / (1 - figures["chance"])
    if above > 0.85:
        findings.append(("warn", "Too easy: even a linear probe separates the classes. Smaller, softer lesions."))
    elif figures.get("encoder") == "untrained" and figures["lesion_accuracy"] > 0.8:
        findings.append(("warn", "Too easy: an encoder that has learnt nothing separates lesions from none. Smaller, "
                             "softer lesions."))  # fmt: skip
    elif above < 0.05 and figures.get("encoder") == "untrained":
        findings.append(("warn", "No conclusion: this encoder is untrained, so these numbers cannot show what is hard. "
                             "Take a first look or train, then measure again."))  # fmt: skip
    elif above < 0.05:
        findings.append(
            ("warn", "Hard: a linear probe can hardly separate the classes. It may learn slowly or not at all.")
        )
    else:
        findings.append(("good", "Neither too easy nor too hard: these classes can be learnt."))
    if figures["lost"] is not None:
        if figures["lost"] > 0.25:
            findings.append(("warn", f"{figures['lost']:.0%} of weak views lose most of a lesion and keep its label. "
                                 "Raise the smallest crop."))  # fmt: skip
        else:
            findings.append(("good", f"Weak views keep the lesion: only {figures['lost']:.0%} lose most of it."))
    near = figures["near"]
    if near and (figures.get("encoder") != "untrained" or near["distance"] > OUT_OF_SUPPORT):
        if near["distance"] > OUT_OF_SUPPORT:  # so glaring that no encoder has to have learnt anything
            times = f"{near['distance']:.0f} times as far from this study's lesions as its normal patches are"
            findings.append(("warn", f"Nothing like a lesion: {times}."))
        elif near["closeness"] < 0.3:
            findings.append(("warn", "Synthetic lesions look nothing like this study's lesions to this encoder."))
        else:
            findings.append(("good", f"Synthetic lesions lie in the direction of real ones ({near['closeness']:.0%})."))
    return [{"kind": kind, "text": text} for kind, text in findings]


def _survival(weak: WeakViews, masks: torch.Tensor, seed: int) -> np.ndarray:
    """Returns the share of each lesion mask that weak crops keep, (B VIEWS,); NaN (B,) if masks are whole images."""
    if bool(masks.all()):
        return np.full(len(masks), np.nan)
    side, generator = masks.shape[-1], torch.Generator().manual_seed(seed)
    areas = masks.flatten(1).sum(1).numpy()
    shares = []
    table = np.pad(masks.numpy().astype(np.int64).cumsum(1).cumsum(2), ((0, 0), (1, 0), (1, 0)))
    rows = np.arange(len(masks))
    for _ in range(VIEWS):
        box = weak.draw(len(masks), side, generator).box.numpy()
        y0, x0 = np.floor(box[:, :2].T).astype(int)
        y1, x1 = np.minimum(np.ceil((box[:, :2] + box[:, 2:]).T).astype(int), side)
        inside = table[rows, y1, x1] - table[rows, y0, x1] - table[rows, y1, x0] + table[rows, y0, x0]
        shares.append(inside / np.maximum(areas, 1))
    return np.concatenate(shares)


def _encoder(store: Store, run: str | None):
    if run is None:
        return build_encoder(EncoderConfig()).eval()
    if runs.get_run(store, run)["kind"] != "pretrain":
        raise ValueError(f"{run} is no encoder's run")
    return load_encoder(runs.run_folder(store, run)).eval()


def _features(encoder, images: torch.Tensor) -> np.ndarray:
    return np.concatenate([encoder.backbone(batch).float().numpy() for batch in images.split(32)])
