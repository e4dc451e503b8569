"""Results: where the threshold lies on the ROC, how readers agree, what they changed with the reading in sight;
exports."""

from __future__ import annotations


def build(ctx) -> None:
    ctx.widget("results", single_user=ctx.single_user)
