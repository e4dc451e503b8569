"""Review: the reading room. Worklist, viewer and decisions are one widget; the server is asked through its own
routes."""

from __future__ import annotations


def build(ctx) -> None:
    ctx.widget("viewer", single_user=ctx.single_user)
