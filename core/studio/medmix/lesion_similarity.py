"""Measures how similar synthetic lesions are to a study's real lesions in the features of an encoder."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from core.engine.augment.matching import APART, Features, energy_distance, lesion_patches, patch_around
from core.engine.augment.strong import Mixed
from core.engine.tensors import to_batch
from core.studio.db.store import Store
from core.studio.ingest.masks import get_mask
from core.studio.ingest.originals import shown
from core.studio.ingest.resize import fraction, shrink
from core.studio.runs.marks import truth_masks

REAL = 48  # lesions of the study that are looked at
OUT_OF_SUPPORT = (
    5.0  # times as far as normal patches: on colonoscopy seven presets lie under 3.5, opaque blocks at 14 and more
)


def lesion_similarity(
    store: Store, study: str, features: Features, x: torch.Tensor, lesions: Mixed | None
) -> dict | None:
    """Compares patches of a study's real lesions with patches of synthetic ones, before and after these are pasted.

    features: float (B, 3, S, S) -> (B, D). x: (B, 3, S, S), the normal images. lesions: x with synthetic lesions.

    Returns {"auroc_real", "auroc_synthetic", "closeness", "distance", "real"}, or None for fewer than 8 real or
    synthetic lesions. A linear classifier is fitted to patches of real lesions and normal ones; auroc_real and
    auroc_synthetic are its AUROCs on held-out real lesions and on synthetic lesions, against other normal patches.
    closeness: auroc_synthetic divided by auroc_real, both minus 0.5, clipped to 0 to 1; it only compares directions.
    distance: energy distance between synthetic and real lesions, divided by the one between normal patches and real
    lesions; it is large for glaring lesions, whatever their closeness. real: number of real lesions.
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
