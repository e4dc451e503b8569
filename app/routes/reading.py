"""Reading sessions: start one, end it, read its summary, print it. The worklist of an open one is in reviews.py."""

from __future__ import annotations

import secrets

from fastapi import APIRouter, Request

from app.routes import _bodies as bodies
from app.routes._aliases import aliases_over
from app.routes._types import Id, Name
from app.routes.reviews import version
from core.studio.ingest.studies import study_row
from core.studio.review import blind, cases, readers, reading_sessions, session_choice, session_sheet


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/reading", include_in_schema=False)

    def run_of(study: str) -> str | None:
        runs = cases.scored_runs(ctx.store(), study)
        return runs[0]["id"] if runs else None

    def asked(request: Request, session: int) -> tuple[dict, bool]:
        """The session, and whether its study goes on being read blind: then nothing of labels may be said."""
        store, name = ctx.store(), ctx.user_of(request)
        row = session_sheet.readable(store, session, name, administers(name))
        return row, blind.applies(store, row["study"], name)

    def administers(name: str) -> bool:
        return readers.rights(ctx.store(), name, ctx.single_user)["administer"]

    def about(row: dict) -> dict:
        return {k: row[k] for k in ("id", "blind", "neutral", "shuffled", "choice", "created", "ended", "reader")}

    @router.get("")
    def sessions(request: Request, study: Name):
        """What a session could hold, and the sessions that are over: the reader's, for administrators everyone's."""
        store, name = ctx.store(), ctx.user_of(request)
        study_row(store, study)
        hidden = blind.applies(store, study, name)
        choices = session_choice.available(store, study, name, None if hidden else run_of(study))
        over = reading_sessions.listed(store, study, None if administers(name) else name)
        return {"ok": True, "choices": choices, "over": over, "blind": hidden}

    @router.post("/start")
    def start(request: Request, body: bodies.ReadingSession):
        store, name = ctx.store(), ctx.user_of(request)
        study_row(store, body.study)
        run = run_of(body.study)
        hidden = blind.is_blind(store, body.study) or body.blind
        shuffled = body.shuffled or hidden  # the worklist's own order follows the score
        seed = secrets.randbits(63)
        with store.write():  # refused as a whole: the open session then goes on
            held = reading_sessions.end(store, name)
            chosen = session_choice.chosen(store, body.study, name, run, body.choice, body.count, shuffled, seed)
            if not chosen and held is not None:
                raise ValueError("There is no case of that kind to read. Your open session goes on.")
            number = reading_sessions.start(
                store, body.study, name, chosen, blind=hidden, neutral=body.neutral, shuffled=shuffled,
                choice=body.choice, run=run,
            )  # fmt: skip
        return {"ok": True, "session": number, "cases": len(chosen)}

    @router.post("/end")
    def end(request: Request):
        number = reading_sessions.end(ctx.store(), ctx.user_of(request))
        if number is None:
            raise ValueError("No reading session is open.")
        return {"ok": True, "session": number}

    @router.get("/{session}/summary")
    def summary(request: Request, session: Id):
        row, hidden = asked(request, session)
        return {"ok": True, "session": about(row), **session_sheet.visible(ctx.store(), row, hidden)}

    @router.get("/{session}/report")
    def report(request: Request, session: Id):
        """What is printed of a session that has ended: a reader's own, or anyone's for administrators."""
        row, hidden = asked(request, session)
        found = session_sheet.sheet(ctx.store(), row, hidden, aliases_over(ctx, request, row))
        return {"ok": True, "session": about(row), "version": version(), **found}

    return router
