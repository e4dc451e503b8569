"""What a threshold's promise of false alarms is worth: its coverage over random splits of scored normals.

--data FOLDER holds homes, each with a study that a first look has scored; nothing in them is changed. A set's normals
are its held-out and its test ones together; 200 times half of them, drawn by chance, set the threshold for the others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from core.engine.calibration.conformal import by_images
from core.studio.db import store as stores

SPLITS = 200
ALPHAS = (0.05, 0.1, 0.2)
CONFIDENCE = 0.95


def run(quick: bool = False, data: str | None = None) -> dict[str, Any]:
    """ "promise": rows of `promised`, with the set."""
    if data is None:
        raise ValueError("say where the homes are: --data FOLDER")
    rows = []
    for home in sorted(p for p in Path(data).iterdir() if (p / "studio.sqlite").exists()):
        rows += [{"set": home.name, **row} for row in promised(*_scores(home), 20 if quick else SPLITS)]
    return {"promise": rows}


def _scores(home: Path) -> tuple[np.ndarray, np.ndarray]:
    """Scores inside the region of interest of normal and of abnormal cases, by the home's first scored run."""
    store = stores.open(str(home))
    run_id = store.first("SELECT run FROM readings ORDER BY run LIMIT 1")["run"]
    cases = store.query(
        "SELECT c.label, x.score_roi AS score FROM readings x JOIN cases c ON c.id = x.case_id "
        "WHERE x.run = ? AND x.score_roi IS NOT NULL ORDER BY c.id",
        [run_id],
    )
    store.close()
    return tuple(np.array([c["score"] for c in cases if c["label"] == kind]) for kind in ("normal", "abnormal"))  # type: ignore[return-value]


def promised(normal: np.ndarray, abnormal: np.ndarray, splits: int = SPLITS) -> list[dict[str, Any]]:
    """By alpha: share of normals flagged over random splits, how often it exceeds alpha, how often that is expected of
    exchangeable images, and what is found of the abnormal ones."""
    from scipy import stats  # here: it takes a second to load, and the list of benches needs it not

    rows = []
    n, m = len(normal) // 2, len(normal) - len(normal) // 2
    for alpha in ALPHAS:
        rng, shares, found = np.random.default_rng(0), [], []
        for _ in range(splits):
            order = rng.permutation(len(normal))
            bound = by_images(np.sort(normal[order[:n]]), alpha, CONFIDENCE)
            shares.append(float((normal[order[n:]] > bound.threshold).mean()))
            found.append(float((abnormal > bound.threshold).mean()))
        ranks = np.arange(1, n + 1)
        enough = ranks[stats.beta.cdf(alpha, n + 1 - ranks, ranks) >= CONFIDENCE]
        k = int(enough[0]) if len(enough) else None
        rows.append({
            "alpha": alpha, "held": n, "others": m, "possible": k is not None, "flagged": float(np.mean(shares)),
            "broken": float(np.mean(np.array(shares) > alpha)), "found": float(np.mean(found)),
            "expected": k and float(stats.betabinom.sf(np.floor(alpha * m), m, n + 1 - k, k)),
        })  # fmt: skip
    return rows
