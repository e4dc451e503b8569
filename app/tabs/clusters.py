"""Clusters: maps of the feature space, epoch by epoch, with the images behind the points and the honest numbers."""

from __future__ import annotations


def build(ctx) -> None:
    ctx.widget("scatter")
