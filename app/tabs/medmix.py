"""MedMix: tune the synthetic lesions by eye, with numbers beside the picture, and hand them to the training."""

from __future__ import annotations


def build(ctx) -> None:
    ctx.widget("medmix")
