"""How a pre-training does on held-out normals and their MedMix versions. No test image is ever seen here."""

from __future__ import annotations

import numpy as np
import torch

from core.engine.tensors import to_batch
from core.engine.training.generators import VALIDATION, generator
from core.engine.training.pretraining import Pretraining

MOST = 64  # held-out images used, evenly spaced


@torch.no_grad()
def validate(training: Pretraining, holdout: np.ndarray, roi: np.ndarray | None = None) -> dict[str, float]:
    """Losses and, where there is a class head, how well it does on images it was not trained with.

    holdout uint8 (N, S, S, 3), normal; roi uint8 (N, S, S) or None. Returns val_loss, val_l_*, val_accuracy (0..1) and
    val_auroc: of 1 - p(A_0), A_0 against the other classes. Running statistics are used, and none is changed.
    """
    c, encoder, objective, device = training.config, training.encoder, training.objective, training.device
    chosen = np.unique(np.linspace(0, len(holdout) - 1, min(MOST, len(holdout))).astype(int))
    sums: dict[str, float] = {}
    logits, labels = [], []
    encoder.eval(), objective.eval()
    try:
        for start in range(0, len(chosen), c.sources):
            rows = chosen[start : start + c.sources]
            inside = None if roi is None else torch.from_numpy(np.ascontiguousarray(roi[rows]))
            views = objective.views(to_batch(holdout[rows], device), generator(c.seed, VALIDATION, start), inside)
            outcome = objective.loss(*training.features(views.images), views, training.centres)
            for name, value in {"loss": outcome.loss, **outcome.terms}.items():
                sums[name] = sums.get(name, 0.0) + float(value) * len(rows) / len(chosen)
            if outcome.logits is not None:
                logits.append(outcome.logits.float().cpu())
                labels.append(views.labels.cpu())
    finally:
        encoder.train(), objective.train()
    found = {f"val_{name}": value for name, value in sums.items()}
    if logits:
        said, truth = torch.cat(logits), torch.cat(labels)
        found["val_accuracy"] = float((said.argmax(1) == truth).float().mean())
        score = 1 - said.softmax(1)[:, 0]
        if bool(torch.isfinite(score).all()):
            from sklearn.metrics import roc_auc_score  # here: scikit-learn takes seconds to load

            found["val_auroc"] = float(roc_auc_score((truth > 0).numpy(), score.numpy()))
    return found


def better(found: dict[str, float], best: dict[str, float] | None) -> bool:
    """Whether this epoch's validation beats the best so far: by l_aug where there is one, else by the whole loss."""
    if not found:
        return False
    key = "val_l_aug" if "val_l_aug" in found else "val_loss"
    return bool(np.isfinite(found[key])) and (best is None or found[key] < best[key])
