"""Study: import a folder, see what came in and what did not, look at a sample with its outlines."""

from __future__ import annotations


def build(ctx) -> None:
    ctx.widget("study", single_user=ctx.single_user)
