"""Summary of an experiment: rows over seeds -> one line per arm, mean and standard deviation, as text and Markdown."""

from __future__ import annotations

import numpy as np

SYNTHETIC = ("synthetic_auroc", "synthetic_pixel_auroc")
OUTLINES = ("dice_one_level", "outlined", "outlined_one_level", "outlined_normal", "outlined_normal_one_level")
METRICS = (
    "auroc",
    "pixel_auroc",
    "dice",
    "dice_best",
    "iou",
    "pro",
    "pro_all",
    "specificity",
    "sensitivity",
    *SYNTHETIC,
    *OUTLINES,
)
HEADS = {
    "auroc": "image AUROC", "pixel_auroc": "pixel AUROC", "dice": "Dice", "dice_best": "best Dice", "iou": "IoU",
    "pro": "PRO", "pro_all": "PRO, all images", "specificity": "specificity", "sensitivity": "sensitivity",
    "synthetic_auroc": "synthetic image AUROC", "synthetic_pixel_auroc": "synthetic pixel AUROC",
    "dice_one_level": "Dice, one level", "outlined": "outlined", "outlined_one_level": "outlined, one level",
    "outlined_normal": "outlined of normal", "outlined_normal_one_level": "outlined of normal, one level",
}  # fmt: skip


def summarise(rows: list[dict]) -> list[dict]:
    """Averages rows over seeds: one line per (label, roi), in order of appearance.

    A line has `metric` and `metric_sd` (over seeds) of each metric, seeds, and mean seconds.
    """
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault((row["label"], row["roi"]), []).append(row)
    lines = []
    for (label, roi), members in groups.items():
        line = {"label": label, "roi": roi, "seeds": len(members)}
        for metric in METRICS:
            values = [m[metric] for m in members if m.get(metric) is not None]
            line[metric] = float(np.mean(values)) if values else None
            line[f"{metric}_sd"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
        took = [m["seconds"] for m in members if m.get("seconds") is not None]
        line["seconds"] = float(np.mean(took)) if took else None
        lines.append(line)
    return lines


def markdown(lines: list[dict], metrics: tuple[str, ...] = (*SYNTHETIC, *METRICS[:6], *OUTLINES)) -> str:
    """Writes a table for the README: mean +- standard deviation over seeds; metrics that no line has are left out."""
    shown = [m for m in metrics if any(line.get(m) is not None for line in lines)]
    out = ["| " + " | ".join(["", "region of interest", *(HEADS[m] for m in shown), "seconds"]) + " |"]
    out.append("|" + "---|" * (len(shown) + 3))
    for line in lines:
        cells = [line["label"], "yes" if line["roi"] else "no"]
        for m in shown:
            sd = line.get(f"{m}_sd")
            cells.append("-" if line[m] is None else f"{line[m]:.3f}" + ("" if sd is None else f" ± {sd:.3f}"))
        cells.append("-" if line["seconds"] is None else f"{line['seconds']:.0f}")
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)
