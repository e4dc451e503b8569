"""Reading sessions: start one, end it, read its summary. The worklist of an open session is the one of reviews.py."""

from __future__ import annotations

import secrets

from fastapi import APIRouter, Request

from app.routes import _bodies as bodies
from app.routes._types import Id, Name
from core.studio.ingest.studies import study_row
from core.studio.review import blind, cases, reading_sessions, session_choice, session_report


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/reading", include_in_schema=False)

    def run_of(study: str) -> str | None:
        runs = cases.scored_runs(ctx.store(), study)
        return runs[0]["id"] if runs else None

    @router.get("")
    def sessions(request: Request, study: Name):
        """What a session could hold, and the reader's sessions that are over."""
        store, name = ctx.store(), ctx.user_of(request)
        study_row(store, study)
        hidden = blind.applies(store, study, name)
        choices = session_choice.available(store, study, name, None if hidden else run_of(study))
        return {"ok": True, "choices": choices, "over": reading_sessions.listed(store, study, name), "blind": hidden}

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
        store, name = ctx.store(), ctx.user_of(request)
        row = reading_sessions.get(store, session, name)
        if row["ended"] is None:
            raise ValueError("The summary is made when the session has ended.")
        found = session_report.summary(store, row)
        if blind.applies(store, row["study"], name):  # the study goes on being read blind: nothing of its labels
            found |= {"point": None, "detector": None, "agreement": []}
        about = ("id", "blind", "neutral", "shuffled", "choice", "created", "ended")
        return {"ok": True, "session": {k: row[k] for k in about}, **found}

    return router
