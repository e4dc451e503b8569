"""Numbers beside MedMix's picture, before any training: too easy, too hard, or nothing like a lesion?"""

from __future__ import annotations

import time

import cv2
import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from core.engine.augment.weak import WeakConfig, WeakViews
from core.engine.device import to_batch
from core.engine.encoder import EncoderConfig, build_encoder, load_encoder
from core.studio import runs
from core.studio.cache import fraction, shrink
from core.studio.decode import read_image
from core.studio.masks import get_mask, truth_masks
from core.studio.medmix_view import Samples, Scene, strong_of
from core.studio.store import Store

SIDE, IMAGES, REAL, VIEWS = 64, 96, 48, 8
SEEN = 0.5  # a lesion is still in a view if half of it, as the view enlarges it, is


@torch.inference_mode()
def probe(store: Store, scene: Scene, run: str | None = None) -> dict:
    """How a linear probe on an encoder sees the classes of a scene.

    run: an encoder's run, "latest" for the study's newest that is done (if any), or None for an untrained encoder.

    {"accuracy", "chance", "told", "confusion" (row: true class), "survival", "lost", "near", "words", "seconds",
    "images", "encoder"}. told: balanced accuracy of some lesion against none, guessing 0.5. survival: mean part of a
    lesion's pixels that a weak crop keeps; lost: part of views of A_1 and above that keep less than half. near: None,
    or {"auroc_synthetic", "auroc_real", "closeness", "real"}: see `nearness`.
    """
    started = time.perf_counter()
    if run == "latest":
        done = [r["id"] for r in runs.list_runs(store, scene.study, "pretrain") if r["status"] == "done"]
        run = done[-1] if done else None
    samples = Samples(store, most=2 * IMAGES)
    cases = list({c["id"]: c for c in samples.normals(scene.study, scene.seed, IMAGES)}.values())
    images, roi = samples.load(cases, SIDE)
    strong = strong_of(samples, scene, SIDE)
    weak = WeakViews(WeakConfig.from_dict(scene.weak_config))
    encoder = _encoder(store, run)
    x, inside = to_batch(images, torch.device("cpu")), torch.from_numpy(roi)
    features, labels, groups, kept, lesions = [], [], [], [], None
    for n in range(strong.k + 1):
        mixed = strong(x, n, torch.Generator().manual_seed(scene.seed * 8 + n), inside)
        views, masks = weak(mixed.images, torch.Generator().manual_seed(n), mixed.masks)
        features.append(_features(encoder, views))
        labels += [n] * len(x)
        groups += range(len(x))
        if n == 1:
            lesions = mixed
        if n:
            kept.append(_survival(weak, mixed.masks, scene.seed + n))
    z, y = np.concatenate(features), np.array(labels)
    # Views of one image stay on one side, or the probe would know the image and not its class.
    folds = GroupKFold(n_splits=min(5, len(x)))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.05))
    said = cross_val_predict(model, z, y, groups=np.array(groups), cv=folds)
    accuracy, chance = float((said == y).mean()), 1 / (strong.k + 1)
    survival = np.concatenate(kept) if not np.isnan(kept[0]).any() else None
    found = {
        "accuracy": accuracy,
        "chance": chance,
        "told": float(((said[y == 0] == 0).mean() + (said[y > 0] > 0).mean()) / 2),
        "confusion": confusion_matrix(y, said, labels=range(strong.k + 1)).tolist(),
        "survival": None if survival is None else float(survival.mean()),
        "lost": None if survival is None else float((survival < SEEN).mean()),
        "near": nearness(store, scene, samples, encoder, x, lesions),
        "images": len(x),
        "encoder": run or "untrained",
    }
    return {**found, "words": words(found), "seconds": time.perf_counter() - started}


def words(found: dict) -> list[dict]:
    """What the numbers say, in sentences: [{"kind": "good"|"warn", "text"}]."""
    said = []
    above = (found["accuracy"] - found["chance"]) / (1 - found["chance"])
    if above > 0.85:
        said.append(("warn", "Too easy: even a linear probe tells the classes apart. Smaller, softer lesions."))
    elif found.get("encoder") == "untrained" and found["told"] > 0.8:
        said.append(("warn", "Too easy: an encoder that has learnt nothing tells lesions from none. Smaller, softer "
                             "lesions."))  # fmt: skip
    elif above < 0.05:
        said.append(
            ("warn", "Hard: a linear probe can hardly tell the classes apart. It may learn slowly or not at all.")
        )
    else:
        said.append(("good", "Neither trivial nor hopeless: there is something to learn."))
    if found["lost"] is not None:
        if found["lost"] > 0.25:
            said.append(("warn", f"{found['lost']:.0%} of weak views lose most of their lesion and keep its label. "
                                 "Raise the smallest crop."))  # fmt: skip
        else:
            said.append(("good", f"Weak views keep the lesion: only {found['lost']:.0%} lose most of it."))
    near = found["near"]
    if near:
        if near["closeness"] < 0.3:
            said.append(("warn", "Synthetic lesions look nothing like this study's lesions to this encoder."))
        else:
            said.append(("good", f"Synthetic lesions lie in the direction of real ones ({near['closeness']:.0%})."))
    return [{"kind": kind, "text": text} for kind, text in said]


def nearness(store: Store, scene: Scene, samples: Samples, encoder, x: torch.Tensor, lesions) -> dict | None:
    """Patches around synthetic and real lesions against normal ones, in the features of `encoder`.

    A line is fitted that tells real lesions' patches from normal ones. auroc_real: how well it does on real ones left
    out. auroc_synthetic: how well it tells synthetic ones from normal. closeness: the second over the first, both
    above chance, 0..1. None where the study has fewer than 8 lesion masks.
    """
    truth = truth_masks(store, scene.study)
    if len(truth) < 8 or lesions is None or not bool(lesions.boxes.any()):
        return None
    chosen = sorted(truth)[:: max(1, len(truth) // REAL)][:REAL]
    real = []
    for case_id in chosen:
        row = store.one("SELECT path, frame FROM cases WHERE id = ?", [case_id])
        image = shrink(read_image(row["path"], row["frame"]), SIDE * 2, SIDE * 2)
        mask = fraction(get_mask(store, truth[case_id]), SIDE * 2) >= 0.5
        if mask.any():
            real.append(_patch(image, *_box(mask)))
    made, plain = [], []
    pixels = (lesions.images * 255).round().byte().permute(0, 2, 3, 1).numpy()
    before = (x * 255).round().byte().permute(0, 2, 3, 1).numpy()
    for i in range(len(pixels)):
        y0, x0, y1, x1 = (int(v) for v in lesions.boxes[i, 0])
        if y1 > y0 and x1 > x0:
            made.append(_patch(pixels[i], y0, x0, y1, x1))
            plain.append(_patch(before[i], y0, x0, y1, x1))
    if len(real) < 8 or len(made) < 8:
        return None
    z = [_features(encoder, to_batch(np.stack(p), torch.device("cpu"))) for p in (plain, real, made)]
    half = len(z[0]) // 2
    folds = np.arange(len(z[1])) % 2 == 0
    scores = []
    for part in (folds, ~folds):
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.05, class_weight="balanced"))
        learn = np.concatenate([z[0][:half], z[1][part]])
        model.fit(learn, np.r_[np.zeros(half), np.ones(part.sum())])
        plain_score = model.decision_function(z[0][half:])
        for group in (z[1][~part], z[2][half:]):
            score = model.decision_function(group)
            truth_of = np.r_[np.zeros(len(plain_score)), np.ones(len(score))]
            scores.append(roc_auc_score(truth_of, np.r_[plain_score, score]))
    auroc_real, auroc_made = (scores[0] + scores[2]) / 2, (scores[1] + scores[3]) / 2
    ratio = max(0.0, auroc_made - 0.5) / max(auroc_real - 0.5, 0.05)
    return {
        "auroc_real": float(auroc_real), "auroc_synthetic": float(auroc_made), "closeness": float(min(1.0, ratio)),
        "real": len(real),
    }  # fmt: skip


def _survival(weak: WeakViews, masks: torch.Tensor, seed: int) -> np.ndarray:
    """(B VIEWS,) part of each lesion mask that weak crops keep; not a number where the whole image is the mask."""
    if bool(masks.all()):
        return np.full(len(masks), np.nan)
    side, generator = masks.shape[-1], torch.Generator().manual_seed(seed)
    whole = masks.flatten(1).sum(1).numpy()
    parts = []
    table = np.pad(masks.numpy().astype(np.int64).cumsum(1).cumsum(2), ((0, 0), (1, 0), (1, 0)))
    rows = np.arange(len(masks))
    for _ in range(VIEWS):
        box = weak.draw(len(masks), side, generator).box.numpy()
        y0, x0 = np.floor(box[:, :2].T).astype(int)
        y1, x1 = np.minimum(np.ceil((box[:, :2] + box[:, 2:]).T).astype(int), side)
        inside = table[rows, y1, x1] - table[rows, y0, x1] - table[rows, y1, x0] + table[rows, y0, x0]
        parts.append(inside / np.maximum(whole, 1))
    return np.concatenate(parts)


def _encoder(store: Store, run: str | None):
    if run is None:
        return build_encoder(EncoderConfig()).eval()
    if runs.get_run(store, run)["kind"] != "pretrain":
        raise ValueError(f"{run} is no encoder's run")
    return load_encoder(runs.run_folder(store, run)).eval()


def _features(encoder, images: torch.Tensor) -> np.ndarray:
    return np.concatenate([encoder.backbone(part).float().numpy() for part in images.split(32)])


def _box(mask: np.ndarray) -> tuple[int, int, int, int]:
    rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return rows[0], cols[0], rows[-1] + 1, cols[-1] + 1


def _patch(image: np.ndarray, y0: int, x0: int, y1: int, x1: int) -> np.ndarray:
    """A square around a box, half as large again, at the probe's side."""
    side = image.shape[0]
    half = max(4, round(0.75 * max(y1 - y0, x1 - x0)))
    cy, cx = (y0 + y1) // 2, (x0 + x1) // 2
    top, left = max(0, cy - half), max(0, cx - half)
    cut = image[top : min(side, cy + half), left : min(side, cx + half)]
    return cv2.resize(cut, (SIDE, SIDE), interpolation=cv2.INTER_AREA if cut.shape[0] > SIDE else cv2.INTER_LINEAR)
