"""Draws a map as a figure for a paper: one panel per epoch with metrics below it, on white; as SVG, PDF or PNG.

The same map always gives the same bytes, because the file contains no dates or random names.
"""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

from core.engine.registry import OBJECTIVES
from core.studio.clusters.explore import NONE
from core.studio.clusters.library import Map
from core.studio.clusters.points import Projected
from core.studio.db.store import Store
from core.studio.runs.records import get_run

FORMATS = ("svg", "pdf", "png")
COLOURS = {  # darker than on the page, because the background is white
    "Normal, training": "#2a6fb5",
    "Normal, held out": "#7fb2e5",
    "Normal, test": "#1d9a7c",
    "Abnormal, test": "#d6284b",
    "Unlabelled, test": "#7b8794",
    "A\u2080, normal": "#2a6fb5",
}
PSEUDO = ["#e3bb2d", "#e58a1f", "#b9541f", "#8f3a3a", "#8a3f7a", "#5f47a0", "#4a4fc0"]
OTHERS = ["#2a6fb5", "#e58a1f", "#1d9a7c", "#b8489a", "#8a8d1f", "#b9541f", "#5f47a0", "#7b8794"]


NUMBERS = (  # metrics below each panel, measured in feature space, because a map alone proves nothing
    ("silhouette", "silhouette"),
    ("davies_bouldin", "Davies-Bouldin"),
    ("knn_purity", "k-NN purity"),
    ("between_within", "between / within"),
    ("knn_chance", "purity at random"),
    ("trustworthiness", "trustworthiness"),
)


def draw(
    m: Map,
    format: str = "svg",
    epochs: list[int] | None = None,
    column: dict | None = None,
    groups: list[str] | None = None,
    objective: str = "",
    projected: list[Projected] | None = None,
) -> bytes:
    """Draws the figure of a map; returns the bytes of its file.

    epochs: Numbers of the epochs to show. Defaults to all.
    column: Column of categories from `explore.columns` by which points are coloured. Defaults to the class.
    groups: Names of the classes to show. Defaults to all.
    objective: Name of the pre-training method, which is shown in titles.
    projected: Projected images to show as well.

    Raises ValueError for an unknown format, epoch or class.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if format not in FORMATS:
        raise ValueError(f"the format of a figure must be {', '.join(FORMATS)}, not {format!r}")
    entries = {e["epoch"]: (i, e) for i, e in enumerate(m.about["epochs"])}
    chosen = list(entries) if epochs is None else epochs
    missing = [e for e in chosen if e not in entries]
    if missing:
        raise ValueError(f"this map has no epoch {missing[0]}; it has: {', '.join(map(str, entries))}")
    names, codes = (column["names"], np.asarray(column["codes"])) if column else (m.about["groups"], m.points.group)
    is_shown = np.isin(m.points.group, [m.about["groups"].index(g) for g in _known(groups, m.about["groups"])])
    if column and column["name"] == "pseudo" and NONE in names:  # test images have no such class
        is_shown &= codes != names.index(NONE)
    per_row = min(len(chosen), 4)
    rows = -(-len(chosen) // per_row)
    settings: dict[Any, Any] = {
        "font.size": 8,
        "font.family": "sans-serif",
        "svg.hashsalt": m.key,
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
    }
    with rc_context(settings):
        figure = Figure(figsize=(3.2 * per_row, 4.0 * rows + 0.45), layout="constrained")
        FigureCanvasAgg(figure)
        axes = np.atleast_1d(figure.subplots(rows, per_row, squeeze=False).ravel())
        for letter, axis, epoch in zip("abcdefghijklmnopqrstuvwxyz" * 9, axes, chosen, strict=False):
            index, facts = entries[epoch]
            _panel(axis, np.asarray(m.coords[index])[is_shown], codes[is_shown], names)
            _centres(axis, facts["centres"])
            for new in projected or []:
                _new(axis, new, index)
            title = "untrained encoder" if epoch == 0 else f"{objective}, epoch {epoch}".lstrip(", ")
            axis.set_title(f"({letter}) {title}" if len(chosen) > 1 else title, fontsize=9)
            _numbers(axis, facts)
        for axis in axes[len(chosen) :]:
            axis.axis("off")
        handles, labels = axes[0].get_legend_handles_labels()
        fits = max(1, int(figure.get_figwidth() / 1.55))
        figure.legend(
            handles, labels, loc="outside lower center", ncols=min(fits, len(labels)), frameon=False, fontsize=7.5
        )
        out = io.BytesIO()
        figure.savefig(out, format=format, dpi=200, metadata=_UNDATED[format])
    return out.getvalue()


def objective(store: Store, m: Map) -> str:
    """Returns the title of the pre-training method of the map's encoder, such as "PMSACL"."""
    return OBJECTIVES.title(get_run(store, m.about["run"])["method"]).removesuffix(" (global)")


_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None, "ModDate": None}, "png": {"Software": None}}


def _known(groups: list[str] | None, have: list[str]) -> list[str]:
    unknown = [g for g in groups or [] if g not in have]
    if unknown:
        raise ValueError(f"this map has no class {unknown[0]!r}; it has: {'; '.join(have)}")
    return groups or have


def _panel(axis, coords: np.ndarray, codes: np.ndarray, names: list[str]) -> None:
    size = float(np.clip(5000 / max(len(coords), 1), 0.6, 9))
    colours = colours_of(names)
    order = [c for c in range(len(names)) if (codes == c).any()]
    mixed = np.random.default_rng(0).permutation(len(coords))  # random order, so that no class covers another
    shades = np.array(colours)[codes[mixed]]
    axis.scatter(*coords[mixed].T, s=size, c=shades, linewidths=0, alpha=0.8, zorder=2, rasterized=len(coords) > 5000)
    for c in order:
        axis.plot([], [], "o", color=colours[c], label=names[c], markersize=3.5, markeredgewidth=0)
    for c in order:
        class_coords = coords[codes == c]
        if len(class_coords) > 2 and names[c] != NONE:
            _mean(axis, class_coords, colours[c])
    axis.plot([], [], "+", color="#333", label="class mean, radius", markersize=7, markeredgewidth=1.4)
    axis.set_aspect("equal", "datalim")
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_color("#b8c0c8")
        spine.set_linewidth(0.6)


def _mean(axis, here: np.ndarray, colour: str) -> None:
    """Draws a cross at the mean of a class's points, and a ring at their root mean square distance from the mean."""
    from matplotlib.patches import Circle

    mean = here.mean(0)
    radius = np.sqrt(((here - mean) ** 2).sum(1).mean())
    axis.add_patch(Circle(mean, radius, fill=False, color=colour, linewidth=0.9, linestyle=(0, (4, 3)), zorder=40))
    axis.plot(*mean, "+", color="white", markersize=10, markeredgewidth=3.4, zorder=50)
    axis.plot(*mean, "+", color=colour, markersize=9, markeredgewidth=1.8, zorder=51)


def _centres(axis, centres: list | None) -> None:
    """Draws the frozen class centres as diamonds."""
    spots = np.asarray(centres or np.zeros((0, 2)))
    if not len(spots):
        return
    axis.plot(*spots.T, "D", color="white", markeredgecolor="black", markersize=4.5, markeredgewidth=0.9, zorder=60)
    axis.plot([], [], "D", color="white", markeredgecolor="black", markersize=4.5, label="frozen centre c\u2099")


def _new(axis, new: Projected, index: int) -> None:
    style = {"color": "white", "markeredgecolor": "black", "markersize": 4.2, "markeredgewidth": 0.9, "linestyle": ""}
    axis.plot(*new.coords[index].T, "^", zorder=45, label=f"placed: {new.about['title']} ({len(new)})", **style)


def _numbers(axis, facts: dict) -> None:
    """Writes the metrics in two columns below a panel, preferably the metrics of the pre-training classes."""
    numbers: dict = facts["numbers"].get("classes") or next(iter(facts["numbers"].values()), {})
    numbers = {**numbers, "trustworthiness": facts["trustworthiness"]}
    entries = [(name, numbers[key]) for key, name in NUMBERS if numbers.get(key) is not None]
    for k, (name, value) in enumerate(entries):
        x, y = (0.02, 0.53)[k % 2], -0.035 - 0.052 * (k // 2)
        style = {"transform": axis.transAxes, "va": "top", "fontsize": 7.5}
        axis.text(x, y, name, ha="left", color="#444", **style)
        axis.text(x + 0.45, y, f"{value:.2f}", ha="right", color="black", **style)


def colours_of(names: list[str]) -> list[str]:
    """Returns a hex colour for each category name; the classes of a map have fixed colours."""
    colours, spare = [], 0
    for name in names:
        pseudo = re.match("A([\u2081-\u2087]),", name)
        if pseudo:
            colours.append(PSEUDO[ord(pseudo[1]) - 0x2081])
        elif name in COLOURS:
            colours.append(COLOURS[name])
        else:
            colours.append(OTHERS[spare % len(OTHERS)])
            spare += 1
    return colours
