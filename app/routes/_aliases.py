"""The names under which whoever asks knows the cases: see core/studio/review/aliases.py."""

from __future__ import annotations

from fastapi import Request

from core.studio.review.aliases import Aliases


def aliases_of(ctx, request: Request) -> Aliases:
    """Of the reader and the session that ask; without sign-in there is one session."""
    return Aliases(ctx.store(), ctx.user_of(request) or "", _cookie(ctx, request))


def aliases_over(ctx, request: Request, session: dict) -> Aliases:
    """Of a reading session that has ended: the names that its reader saw."""
    return Aliases(ctx.store(), session["reader"], _cookie(ctx, request), session)


def _cookie(ctx, request: Request) -> str:
    sessions = getattr(ctx, "sessions", None)
    return "" if sessions is None else request.cookies.get(sessions.COOKIE, "")
