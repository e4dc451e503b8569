"""The names under which whoever asks knows the cases: see core/studio/review/aliases.py."""

from __future__ import annotations

from fastapi import Request

from core.studio.review.aliases import Aliases


def aliases_of(ctx, request: Request) -> Aliases:
    """Of the reader and the session that ask; without sign-in there is one session."""
    sessions = getattr(ctx, "sessions", None)
    cookie = "" if sessions is None else request.cookies.get(sessions.COOKIE, "")
    return Aliases(ctx.store(), ctx.user_of(request) or "", cookie)
