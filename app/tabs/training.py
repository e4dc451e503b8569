"""Training: settle a run, try a few steps, queue it, watch it learn, fit detectors on it."""

from __future__ import annotations


def build(ctx) -> None:
    ctx.widget("training")
