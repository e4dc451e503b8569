"""One plain verdict on each detector: what it finds, what it flags wrongly, whether its promise holds, what to do."""

from __future__ import annotations

import numpy as np

from core.studio.review import results

PROMISED = 0.05  # share of normal images that the threshold may flag
FEW = 20  # cases of a kind, under which an interval is too wide for a verdict

_NO_LABELS = "No normal and abnormal test cases with labels: nothing can be said of how well it reads."
_CHANCE = "It is no better than chance on these cases"
_UNTOLD = "Too few cases to tell it from chance"
_RETRAIN = "Do not read with it: train longer, or choose another detector."
_SHIFTED = (
    "The test’s normal images differ from the held-out ones. Hold out normal images of the same source and fit again, "
    "or read with a higher threshold."
)
_SMALL = "Few cases: the intervals are wide. Add labelled test cases before you rely on it."


def verdict(run: dict, point: dict) -> dict:
    """Of a scored run, from its `results.operating_point` against the labels.

    {"run", "title", "level" (good, warn, bad, none), "words", "advice", "found", "alarms", "auroc"}.
    Its promise, that at most PROMISED of normal images are flagged, is broken if the whole 95 % interval of the share
    lies above it. It is at chance if the AUROC's 95 % interval (Hanley and McNeil, 1982) reaches 0.5; where a kind has
    fewer than FEW cases, nothing is known yet unless the AUROC itself is no better.
    """
    sick, well = point["tp"] + point["fn"], point["fp"] + point["tn"]
    out = {"run": run["id"], "title": run["title"], "found": point["sensitivity"], "auroc": point["auroc"]}
    out["alarms"] = results.wilson(point["fp"], well)
    if point["auroc"] is None:
        return {**out, "level": "none", "words": _NO_LABELS, "advice": ""}
    share = out["alarms"]["value"] or 0.0
    figures = (
        f"Finds {point['tp']} of {sick} abnormal cases and flags {point['fp']} of {well} normal ones "
        f"({100 * share:.1f} %)"
    )
    if _auroc_low(point["auroc"], sick, well) <= 0.5:
        if min(sick, well) < FEW and point["auroc"] > 0.5:
            return {**out, "level": "warn", "words": f"{_UNTOLD}. {figures}.", "advice": _SMALL}
        return {**out, "level": "bad", "words": f"{_CHANCE}. {figures}.", "advice": _RETRAIN}
    limit = f"{100 * PROMISED:.0f} %"
    if out["alarms"]["low"] > PROMISED:
        words = f"{figures}, where its threshold promises at most {limit}: the promise does not hold here."
        return {**out, "level": "bad", "words": words, "advice": _SHIFTED}
    if min(sick, well) < FEW:
        return {**out, "level": "warn", "words": f"{figures}.", "advice": _SMALL}
    kept = "within" if share <= PROMISED else "not clearly above"
    return {**out, "level": "good", "words": f"{figures}, {kept} the promised {limit}.", "advice": ""}


def _auroc_low(auroc: float, sick: int, well: int) -> float:
    """Lower end of the 95 % interval."""
    q1, q2 = auroc / (2 - auroc), 2 * auroc**2 / (1 + auroc)
    spread = auroc * (1 - auroc) + (sick - 1) * (q1 - auroc**2) + (well - 1) * (q2 - auroc**2)
    return auroc - 1.959963984540054 * float(np.sqrt(max(spread, 0.0) / (sick * well)))
