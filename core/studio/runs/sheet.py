"""Contact sheet of the cases with the best and the worst Dice: lesion mask, heat map, outline and percentile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from core.engine.calibration.heatmap import upsample
from core.engine.calibration.outlines import level_of, outlined, peaks
from core.engine.rows import rows_of
from core.studio.db.store import Store
from core.studio.ingest.studies import load_arrays
from core.studio.runs import records as runs
from core.studio.runs.marks import truth_masks, unseen
from core.studio.runs.readings import pixel_scale, read_maps, size_of, unpack_not_judged

INK, PAPER = "#e6e9ec", "#14171a"
TRUTH, FOUND = "#4dd0a8", "#ffb454"


@dataclass
class Shown:
    """Case on the contact sheet, with its Dice (0 to 1) and its percentile (0 to 100).

    The image is uint8 (S, S, 3), where S is the side length of the run's images. The lesion mask `truth`, the run's
    outline `found`, and the pixels that the run does not judge (`hidden`) are bool (S, S). The heat map `heat` is
    float32 (S, S).
    """

    name: str
    image: np.ndarray
    truth: np.ndarray
    heat: np.ndarray
    found: np.ndarray
    dice: float
    percentile: float
    hidden: np.ndarray


def cases_by_dice(store: Store, run_id: str, roi: bool = True, masks: str = "") -> tuple[list[Shown], str]:
    """Returns the test cases with a lesion mask, best Dice first, and a description of the masks.

    Cases that the run has learned from are skipped. Raises ValueError if no case remains. `masks`: see `truth_masks`.
    """
    run = runs.get_run(store, run_id)
    ground_truth = truth_masks(store, run["study"], masks)
    arrays = load_arrays(store, run["study"], size_of(store, run), masks=ground_truth.masks)
    rows = arrays.index("test")
    rows = rows[arrays.has_mask[rows].astype(bool) & unseen(store, run_id, arrays.case_ids[rows])]
    if not len(rows):
        raise ValueError(f"study {run['study']} has no unseen test case with a lesion mask")
    size = arrays.images.shape[1]
    cells, scale = read_maps(store, run_id, arrays.case_ids[rows]), pixel_scale(run)
    maps, levels = upsample(cells, size), level_of(peaks(cells, np.asarray(rows_of(arrays.roi, rows)), scale), scale)
    column = "percentile_roi" if roi else "percentile"
    cases = []
    for row, heat, level in zip(rows, maps, levels, strict=True):
        case = int(arrays.case_ids[row])
        inside = arrays.roi[row].astype(bool) if roi else np.ones((size, size), bool)
        truth = arrays.masks[row].astype(bool) & inside
        outline = outlined(heat[None], level, scale, inside[None])[0]
        dice = 2 * float((truth & outline).sum()) / max(1, truth.sum() + outline.sum())
        query = f"SELECT {column} AS p, not_judged, map_h, map_w FROM readings WHERE run = ? AND case_id = ?"
        reading = store.first(query, [run_id, case])
        hidden = upsample(unpack_not_judged(reading)[None], size)[0] >= 0.5
        name = store.first("SELECT name FROM cases WHERE id = ?", [case])["name"]
        cases.append(Shown(name, np.asarray(arrays.images[row]), truth, heat, outline, dice, reading["p"], hidden))
    return sorted(cases, key=lambda s: -s.dice), ground_truth.words(arrays.case_ids[rows].tolist())


def draw_sheet(
    store: Store, run_id: str, out: Path, best: int = 12, worst: int = 12, roi: bool = True, masks: str = ""
) -> dict:
    """Draws the best and worst cases by Dice to the file `out` (PNG, JPEG, SVG or PDF).

    Returns {"out", "cases": number of cases with a mask, "against": description of the masks, "best": Dice values of
    the best cases, "worst": Dice values of the worst cases}.
    """
    cases, against = cases_by_dice(store, run_id, roi, masks)
    best = min(best, len(cases))
    worst = min(worst, len(cases) - best)
    run = runs.get_run(store, run_id)
    scale = run["summary"]["pixels"]
    chosen = cases[:best] + cases[len(cases) - worst :]
    columns = 6
    lines = -(-best // columns) + -(-worst // columns)
    figure, axes = plt.subplots(lines, columns * 2, figsize=(columns * 2.9, lines * 1.72 + 0.5), facecolor=PAPER)
    for axis in axes.flat:
        axis.set_axis_off()
    offset = -(-best // columns) * columns
    for i, case in enumerate(chosen):
        at = i if i < best else offset + i - best
        image_axis, map_axis = axes[at // columns, 2 * (at % columns)], axes[at // columns, 2 * (at % columns) + 1]
        image_axis.imshow(case.image)
        _outline(image_axis, case.truth, TRUTH)
        image_axis.set_title(f"Dice {case.dice:.2f}", color=INK, fontsize=8, loc="left", pad=3)
        map_axis.imshow(case.image)
        map_axis.imshow(case.heat, cmap="inferno", alpha=0.55, vmin=scale["lo"], vmax=scale["hi"])
        if case.hidden.any():
            map_axis.contourf(case.hidden.astype(float), levels=[0.5, 1.5], colors="none", hatches=["////"])
        _outline(map_axis, case.truth, TRUTH)
        _outline(map_axis, case.found, FOUND)
        map_axis.set_title(f"above {case.percentile:.0f} % of normals", color=INK, fontsize=8, loc="left", pad=3)
    title = f"{run['study']}, {run['method']}: {best} best and {worst} worst of {len(cases)} cases by Dice, {against}"
    figure.text(0.01, 0.99, title, color=INK, fontsize=12, va="top")
    figure.text(0.99, 0.99, "lesion mask", color=TRUTH, fontsize=10, va="top", ha="right")
    figure.text(0.915, 0.99, "found by the run", color=FOUND, fontsize=10, va="top", ha="right")
    figure.subplots_adjust(left=0.005, right=0.995, top=1 - 0.62 / (lines * 1.72 + 0.5), bottom=0.01, wspace=0.03)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110, facecolor=PAPER)
    plt.close(figure)
    dice = [c.dice for c in chosen]
    return {"out": str(out), "cases": len(cases), "against": against, "best": dice[:best], "worst": dice[best:]}


def _outline(axis, mask: np.ndarray, colour: str) -> None:
    if mask.any() and not mask.all():
        axis.contour(mask.astype(float), levels=[0.5], colors=[colour], linewidths=1.0)
