"""Measures, before a training run, whether MedMix's classes are too easy, too hard, or unlike real lesions."""

from __future__ import annotations

import time

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from core.engine.augment.config import WeakConfig
from core.engine.augment.matching import APART, Features, energy_distance, lesion_patches, patch_around
from core.engine.augment.strong import Mixed
from core.engine.augment.weak import WeakViews
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder, load_encoder
from core.engine.progress import Stop, Stopped
from core.engine.tensors import to_batch
from core.studio.db.store import Store
from core.studio.ingest.masks import get_mask
from core.studio.ingest.originals import shown
from core.studio.ingest.resize import fraction, shrink
from core.studio.jobs.steps import never
from core.studio.medmix.preview import Samples, Scene, strong_of
from core.studio.runs import records as runs
from core.studio.runs import weights
from core.studio.runs.marks import truth_masks

SIDE, IMAGES, VIEWS = 64, 96, 8
SEEN = 0.5  # a view has lost a lesion if it shows less than this fraction of the lesion's pixels


@torch.inference_mode()
def probe(
    store: Store, scene: Scene, run: str | None = None, lesions_hidden: bool = False, should_stop: Stop = never
) -> dict:
    """Measures how well a linear probe on an encoder separates the classes of a scene.

    Args:
        scene: Settings of the images and of their classes.
        run: Id of a pre-training run, or "latest" for the study's newest finished run with weights. By default, or
            if there is no such run, the encoder is untrained.
        lesions_hidden: Whether real lesions are ignored, because readers are still reading the cases blind.
        should_stop: Function that is called before each class.

    Returns:
        A dictionary with "accuracy" (of the probe), "chance" (accuracy of guessing), "lesion_accuracy" (balanced
        accuracy for images with and without lesions), "confusion" (rows are true classes), "survival" (mean
        fraction of a lesion's pixels that a weak crop keeps), "lost" (fraction of crops that keep less than half),
        "near" (result of `lesion_similarity`, or None), "words", "seconds", "images", "side", "encoder" and "study".

    Raises:
        Stopped: If `should_stop` returns True.
    """
    started = time.perf_counter()
    if run == "latest":
        trained = runs.list_runs(store, scene.study, "pretrain")
        done = [r["id"] for r in trained if r["status"] == "done" and weights.has_weights(store, r["id"])]
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
    # All views of an image are in the same fold; otherwise the probe could recognise the image instead of the class.
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
    """Interprets a result of `probe` in sentences: [{"kind", "text"}], where "kind" is "good" or "warn"."""
    findings = []
    above = (figures["accuracy"] - figures["chance"]) / (1 - figures["chance"])
    if above > 0.85:
        findings.append(("warn", "Too easy: even a linear probe separates the classes. Use smaller, softer lesions."))
    elif figures.get("encoder") == "untrained" and figures["lesion_accuracy"] > 0.8:
        findings.append(("warn", "Too easy: an untrained encoder separates images with and without lesions. Use "
                             "smaller, softer lesions."))  # fmt: skip
    elif above < 0.05 and figures.get("encoder") == "untrained":
        findings.append(("warn", "No conclusion: this encoder is untrained, so these numbers cannot show what is hard. "
                             "Run a first look or train an encoder, then measure again."))  # fmt: skip
    elif above < 0.05:
        findings.append(
            ("warn", "Hard: a linear probe can hardly separate the classes. An encoder may learn slowly or not at all.")
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
        if near["distance"] > OUT_OF_SUPPORT:  # so large that even an untrained encoder is reliable
            times = f"{near['distance']:.0f} times as far from this study's lesions as its normal patches are"
            findings.append(("warn", f"Nothing like a lesion: {times}."))
        elif near["closeness"] < 0.3:
            findings.append(("warn", "Synthetic lesions look nothing like this study's lesions to this encoder."))
        else:
            findings.append(("good", f"Synthetic lesions lie in the direction of real ones ({near['closeness']:.0%})."))
    return [{"kind": kind, "text": text} for kind, text in findings]


def _survival(weak: WeakViews, masks: torch.Tensor, seed: int) -> np.ndarray:
    """Returns the fraction of each lesion mask that weak crops keep, (B VIEWS,), or NaN if masks are whole images."""
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
        raise ValueError(f"{run} is not a pre-training run")
    return load_encoder(runs.run_folder(store, run)).eval()


def _features(encoder, images: torch.Tensor) -> np.ndarray:
    return np.concatenate([encoder.backbone(batch).float().numpy() for batch in images.split(32)])


REAL = 48  # maximum number of real lesions that are compared
# Limit of "distance" in lesion_similarity: on colonoscopy images, seven presets are below 3.5, opaque blocks above 14.
OUT_OF_SUPPORT = 5.0


def lesion_similarity(
    store: Store, study: str, features: Features, x: torch.Tensor, lesions: Mixed | None
) -> dict | None:
    """Compares a study's real lesions with synthetic lesions on images of the study, in the features of an encoder.

    A linear classifier is trained on patches of real lesions and normal patches. Returns None if there are fewer than 8
    real or 8 synthetic lesions.

    Args:
        features: Function that computes features `(B, D)` of images `(B, 3, S, S)`.
        x: Normal images, float `(B, 3, S, S)`.
        lesions: The normal images with synthetic lesions.

    Returns:
        A dictionary with "auroc_real" and "auroc_synthetic" (AUROC of the classifier for held-out real lesions and for
        synthetic lesions, each against held-out normal patches), "closeness" ((auroc_synthetic - 0.5) / (auroc_real -
        0.5), clipped to 0 to 1), "distance" (energy distance between synthetic and real lesions, divided by that
        between normal patches and real lesions; it is large if synthetic lesions are too conspicuous), and "real"
        (number of real lesions).
    """
    side = x.shape[-1]
    truth = truth_masks(store, study).masks
    if len(truth) < 8 or lesions is None or not bool(lesions.boxes.any()):
        return None
    chosen = sorted(truth)[:: max(1, len(truth) // REAL)][:REAL]
    real = []
    for case_id in chosen:
        row = store.query("SELECT path, frame, scale FROM cases WHERE id = ?", [case_id])[0]
        image = shrink(shown(row), side * 2, side * 2)
        mask = fraction(get_mask(store, truth[case_id]), side * 2) >= 0.5
        if mask.any():
            real.append(patch_around(image, _box(mask), side))
    pasted, plain = (lesion_patches(lesions, images, side) for images in (lesions.images, x))
    if len(real) < 8 or len(pasted) < 8:
        return None
    z = [features(to_batch(p, torch.device("cpu"))) for p in (plain, np.stack(real), pasted)]
    half = len(z[0]) // 2
    folds = np.arange(len(z[1])) % 2 == 0
    scores = []
    for fold in (folds, ~folds):
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.05, class_weight="balanced"))
        learn = np.concatenate([z[0][:half], z[1][fold]])
        model.fit(learn, np.r_[np.zeros(half), np.ones(fold.sum())])
        plain_score = model.decision_function(z[0][half:])
        for group in (z[1][~fold], z[2][half:]):
            score = model.decision_function(group)
            truth_of = np.r_[np.zeros(len(plain_score)), np.ones(len(score))]
            scores.append(roc_auc_score(truth_of, np.r_[plain_score, score]))
    auroc_real, auroc_made = (scores[0] + scores[2]) / 2, (scores[1] + scores[3]) / 2
    ratio = max(0.0, auroc_made - 0.5) / max(auroc_real - 0.5, 0.05)
    scaler = StandardScaler().fit(np.concatenate(z[:2]))
    plain_z, real_z, made_z = map(scaler.transform, z)
    return {
        "auroc_real": float(auroc_real), "auroc_synthetic": float(auroc_made), "closeness": float(min(1.0, ratio)),
        "distance": energy_distance(made_z, real_z) / max(energy_distance(plain_z, real_z), APART), "real": len(real),
    }  # fmt: skip


def _box(mask: np.ndarray) -> tuple[int, int, int, int]:
    rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return rows[0], cols[0], rows[-1] + 1, cols[-1] + 1
