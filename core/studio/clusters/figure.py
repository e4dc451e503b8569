"""A map as a paper's figure: one panel per epoch, white ground, vector text; SVG, PDF or PNG.

The same map gives the same bytes: no dates, no random names inside.
"""

from __future__ import annotations

import io
import re

import numpy as np

from core.studio.clusters.config import METHODS
from core.studio.clusters.library import Map

FORMATS = ("svg", "pdf", "png")
COLOURS = {  # darker than on the page: these lie on white
    "Normal, training": "#2a6fb5",
    "Normal, held out": "#7fb2e5",
    "Normal, test": "#1d9a7c",
    "Abnormal, test": "#d6284b",
    "Unlabelled, test": "#7b8794",
}
PSEUDO = ["#e3bb2d", "#e58a1f", "#b9541f", "#8f3a3a", "#8a3f7a", "#5f47a0", "#4a4fc0"]
OTHERS = ["#2a6fb5", "#e58a1f", "#1d9a7c", "#b8489a", "#8a8d1f", "#b9541f", "#5f47a0", "#7b8794"]


def draw(
    m: Map,
    format: str = "svg",
    epochs: list[int] | None = None,
    column: dict | None = None,
    groups: list[str] | None = None,
    marks: bool = True,
    dpi: int = 200,
) -> bytes:
    """The figure's file. epochs: which of the map's epochs (numbers), all when None; column: a categorical column of
    `columns.columns` to colour by (None: class); groups: names of classes to show (None: all)."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if format not in FORMATS:
        raise ValueError(f"a figure is saved as {', '.join(FORMATS)}, not {format!r}")
    about = {e["epoch"]: (i, e) for i, e in enumerate(m.about["epochs"])}
    chosen = list(about) if epochs is None else epochs
    missing = [e for e in chosen if e not in about]
    if missing:
        raise ValueError(f"this map has no epoch {missing[0]}; it has: {', '.join(map(str, about))}")
    names, codes = (column["names"], np.asarray(column["codes"])) if column else (m.about["groups"], m.points.group)
    shown = np.isin(m.points.group, [m.about["groups"].index(g) for g in _known(groups, m.about["groups"])])
    per_row = min(len(chosen), 4)
    rows = -(-len(chosen) // per_row)
    settings = {
        "font.size": 8,
        "font.family": "sans-serif",
        "svg.hashsalt": m.key,
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
    }
    with rc_context(settings):
        figure = Figure(figsize=(2.7 * per_row, 3.05 * rows + 0.45), layout="constrained")
        FigureCanvasAgg(figure)
        axes = np.atleast_1d(figure.subplots(rows, per_row, squeeze=False).ravel())
        for axis, epoch in zip(axes, chosen, strict=False):
            index, said = about[epoch]
            _panel(axis, np.asarray(m.coords[index])[shown], codes[shown], names, marks)
            axis.set_title(_title(m, epoch, said), fontsize=8)
        for axis in axes[len(chosen) :]:
            axis.axis("off")
        handles, labels = axes[0].get_legend_handles_labels()
        fits = max(1, int(figure.get_figwidth() / 1.55))
        figure.legend(
            handles, labels, loc="outside lower center", ncols=min(fits, len(labels)), frameon=False, fontsize=7
        )
        out = io.BytesIO()
        figure.savefig(out, format=format, dpi=dpi, metadata=_UNDATED[format])
    return out.getvalue()


_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None, "ModDate": None}, "png": {"Software": None}}


def _known(groups: list[str] | None, have: list[str]) -> list[str]:
    unknown = [g for g in groups or [] if g not in have]
    if unknown:
        raise ValueError(f"this map has no class {unknown[0]!r}; it has: {'; '.join(have)}")
    return groups or have


def _panel(axis, coords: np.ndarray, codes: np.ndarray, names: list[str], marks: bool) -> None:
    size = float(np.clip(5000 / max(len(coords), 1), 0.6, 9))
    colours = colours_of(names)
    order = [c for c in range(len(names)) if (codes == c).any()]
    mixed = np.random.default_rng(0).permutation(len(coords))  # no class lies over another
    shades = np.array(colours)[codes[mixed]]
    axis.scatter(*coords[mixed].T, s=size, c=shades, linewidths=0, alpha=0.8, zorder=2, rasterized=len(coords) > 5000)
    for c in order:
        axis.plot([], [], "o", color=colours[c], label=names[c], markersize=3.5, markeredgewidth=0)
    for c in order if marks else []:
        here = coords[codes == c]
        if len(here) > 2:
            mean = here.mean(0)
            axis.plot(*mean, "+", color="white", markersize=8, markeredgewidth=2.6, zorder=50)
            axis.plot(*mean, "+", color=colours[c], markersize=7, markeredgewidth=1.4, zorder=51)
    axis.set_aspect("equal", "datalim")
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_color("#b8c0c8")
        spine.set_linewidth(0.6)


def _title(m: Map, epoch: int, said: dict) -> str:
    """'epoch 12 / silhouette 0.21, purity 0.74, trust 0.97': in feature space, so that the picture is not the proof."""
    when = "untrained encoder" if epoch == 0 else f"epoch {epoch}"
    numbers = said["numbers"].get("classes") or next(iter(said["numbers"].values()), {})
    parts = [
        f"{name} {numbers[key]:.2f}"
        for key, name in (("silhouette", "silhouette"), ("knn_purity", "purity"))
        if key in numbers
    ]
    return f"{METHODS[m.config.method]}, {when}\n" + ", ".join([*parts, f"trust {said['trustworthiness']:.2f}"])


def colours_of(names: list[str]) -> list[str]:
    """One colour per category, those of the classes fixed."""
    found, spare = [], 0
    for name in names:
        pseudo = re.match("A([\u2081-\u2087]),", name)
        if pseudo:
            found.append(PSEUDO[ord(pseudo[1]) - 0x2081])
        elif name in COLOURS:
            found.append(COLOURS[name])
        else:
            found.append(OTHERS[spare % len(OTHERS)])
            spare += 1
    return found
