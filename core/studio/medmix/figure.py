"""A grid of classes as a figure for a paper or a slide: PNG, or SVG and PDF with outlines as vector graphics."""

from __future__ import annotations

import io
import threading

from core.studio.medmix.preview import Grid

TYPES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}
_LOCK = threading.Lock()  # matplotlib's font cache is not made for threads


def figure(grid: Grid, kind: str, outlines: bool = True, title: str = "") -> bytes:
    """Draws a grid as a figure, with images that are 1.2 inches high and have full resolution in SVG and PDF.

    kind: one of TYPES. Raises ValueError for another.
    """
    if kind not in TYPES:
        raise ValueError(f"a figure is saved as {', '.join(TYPES)}, not {kind!r}")
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Polygon

    rows, cols, side = grid.images.shape[:3]
    wide = 1.2 * (grid.aspect or 1.0)
    with _LOCK, matplotlib.rc_context({"svg.fonttype": "none", "pdf.fonttype": 42, "font.family": "DejaVu Sans"}):
        fig = Figure(figsize=(wide * cols + 0.4, 1.2 * rows + (0.3 if title else 0.05)))
        FigureCanvasAgg(fig)
        axes = fig.subplots(rows, cols, squeeze=False)
        for n in range(rows):
            for m in range(cols):
                ax = axes[n][m]
                ax.imshow(grid.images[n, m], extent=(0, 1, 1, 0), interpolation="nearest", aspect="auto")
                ax.set_xticks([])
                ax.set_yticks([])
                for spine in ax.spines.values():
                    spine.set_visible(False)
                if outlines:
                    for line in grid.outlines[n][m]:
                        ax.add_patch(Polygon(line, closed=True, fill=False, edgecolor="#e6bd6a", linewidth=0.8))
            axes[n][0].set_ylabel(f"$A_{n}$", rotation=0, ha="right", va="center", labelpad=6)
        if title:
            fig.suptitle(title, fontsize=9, y=0.995)
        fig.subplots_adjust(left=0.4 / (wide * cols + 0.4), right=0.995, bottom=0.005, wspace=0.03, hspace=0.03,
                            top=1 - (0.3 if title else 0.01) / (1.2 * rows + 0.3))  # fmt: skip
        out = io.BytesIO()
        fig.savefig(
            out, format=kind, dpi=max(100, round(side / 1.2)), metadata={"Date": None} if kind == "svg" else None
        )
    return out.getvalue()
