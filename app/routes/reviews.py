"""The Review tab's JSON: open a study, page through the worklist, decide, undo. Lesion masks: masks.py.

Every answer that follows from a change says `ok`; what went wrong is a sentence (errors.py).
"""

from __future__ import annotations

import functools
import re
from importlib import metadata

from fastapi import APIRouter, Request

from app.context import APP
from app.routes import _bodies as bodies
from app.routes._aliases import aliases_of
from app.routes._types import Id, Int, Line, Name, read_cursor
from core.studio.db import audit
from core.studio.ingest.studies import study_row
from core.studio.review import blind, cases, decisions, findings, readers, reading_sessions, worklist
from core.studio.review.aliases import Aliases


@functools.cache
def version() -> str:
    """Of the studio: as it was installed, else as pyproject.toml beside it says."""
    try:
        return metadata.version("pmsacl-studio")
    except metadata.PackageNotFoundError:
        found = re.search(r'^version = "(.+)"', (APP.parent / "pyproject.toml").read_text(), re.MULTILINE)
        return found[1] if found else "unknown"


AHEAD = 3  # cases whose pictures the page fetches before they are asked for


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/review", include_in_schema=False)

    def who(request: Request) -> str:
        return ctx.user_of(request)

    def names_of(request: Request) -> Aliases:
        return aliases_of(ctx, request)

    def query(request: Request, values: dict | None = None):
        """The worklist that was asked for: by the address, unless `values` are given."""
        return cases.asked(ctx.store(), who(request), dict(request.query_params) if values is None else values)

    @router.get("/open")
    def open_study(request: Request, study: Name):
        """What the tab needs once: runs, labels, settings, counts, rights."""
        store, name = ctx.store(), who(request)
        study_row(store, study)
        blinded = blind.applies(store, study, name)
        runs = cases.scored_runs(store, study)
        return {
            "ok": True,
            "study": study,
            "reader": name,
            "version": version(),
            "rights": readers.rights(store, name, ctx.single_user),
            "blind": blind.is_blind(store, study),
            "blinded": blinded,
            "session": reading_sessions.open_session(store, name, study),
            "runs": runs,
            "labels": findings.labels(store, study),
            "keys": store.setting(f"keys:{name}", {}),
            "show": store.setting(f"show:{name}", {}),
        }

    @router.get("/list")
    def listed(request: Request, study: Name, cursor: Line = "", limit: Int = worklist.PAGE, at: Int = -1):
        q, store, names = query(request), ctx.store(), names_of(request)
        after = worklist.position(store, q, at) if at > 0 else None
        if cursor:
            after = read_cursor(cursor)
            after = worklist.key_of(store, q, names.real(after[2])) if names.covers(study) else after
        page = worklist.page(store, q, after, min(max(limit, 1), 500))
        rows = [names.shown(study, row) for row in page["rows"]]
        return {"ok": True, "rows": rows, "cursor": names.cursor(study, page["cursor"])}

    @router.get("/counts")
    def counts(request: Request, study: Name):
        return {"ok": True, **worklist.counts(ctx.store(), query(request))}

    @router.get("/step")
    def step(request: Request, study: Name, case: Id = 0, back: Int = 0, unread: Int = 0):
        """The case after (or before) one in the list's order, with its detail; case 0: the first."""
        values = dict(request.query_params)
        if unread:
            values["decision"] = "unread"
        return _step(request, values, names_of(request).real(case) if case else None, bool(back))

    def _step(request: Request, values: dict, case: int | None, back: bool = False) -> dict:
        store, q = ctx.store(), query(request, values)
        ids = worklist.neighbour(store, q, case, backwards=back, count=1 + AHEAD)
        if not ids:
            return {"ok": True, "case": None, "ahead": []}
        return {"ok": True, "case": _detail(request, ids[0], values), "ahead": _ahead(request, ids[1:])}

    def _ahead(request: Request, ids: list[int]) -> list[dict]:
        names, rows = names_of(request), [decisions.case_row(ctx.store(), i) for i in ids]
        found = [(r["study"], {"id": r["id"], "v": f"{r['sha256'] or ''}"[:10], "bits": r["bits"]}) for r in rows]
        return [names.shown(study, one) for study, one in found]

    def _detail(request: Request, case_id: int, values: dict) -> dict:
        store = ctx.store()
        runs = cases.scored_runs(store, values["study"])
        found = cases.detail(store, case_id, who(request), values.get("run") or None, runs)
        return names_of(request).shown(values["study"], found)

    @router.get("/case/{case_id}")
    def case(request: Request, case_id: Id):
        row = decisions.case_row(ctx.store(), names_of(request).real(case_id))
        values = {**request.query_params, "study": row["study"]}
        return {"ok": True, "case": _detail(request, row["id"], values), "ahead": []}

    @router.post("/decide")
    def decide(request: Request, body: bodies.Decision):
        """Stores the decision, then (and only then) answers with the next case of the list."""
        store, name, names = ctx.store(), who(request), names_of(request)
        case_id = names.real(body.case)
        if body.adjudication:
            ctx.demand(request, "adjudicate")
        row = decisions.case_row(store, case_id)
        blinded = blind.hides(store, row, name)
        done = decisions.decide(
            store,
            case_id,
            name,
            body.decision,
            comment=(body.comment or "")[:4000],
            seconds=_seconds(body.seconds),
            run=body.run,
            shown=body.shown or {},
            adjudication=body.adjudication,
            token=body.token,
        )
        done["case"] = names.number(row["study"], done["case"])
        values = {"study": row["study"], **(body.list or {})}
        if blinded or not body.list:
            # The reader has committed: the same case comes again, now with what the run says.
            return {"ok": True, **done, "next": _detail(request, case_id, values), "ahead": []}
        found = _step(request, values, case_id)
        return {"ok": True, **done, "next": found["case"], "ahead": found["ahead"]}

    @router.post("/undo")
    def undo(request: Request, body: bodies.Travel):
        return _back(request, body, decisions.undo, "There is nothing to undo.")

    @router.post("/redo")
    def redo(request: Request, body: bodies.Travel):
        return _back(request, body, decisions.redo, "There is nothing to redo.")

    def _back(request: Request, body: bodies.Travel, act, nothing: str) -> dict:
        done = act(ctx.store(), body.study, who(request), body.token)
        if done is None:
            return {"ok": False, "error": nothing}
        values = {"study": body.study, **(body.list or {})}
        after = _detail(request, done["case"], values)
        return {"ok": True, **done, "case": after["id"], "next": after, "ahead": []}

    @router.post("/settings")
    def settings(request: Request, body: bodies.ReviewSettings):
        """keys and show are the reader's own; labels and blind belong to the study (administrators)."""
        store, name = ctx.store(), who(request)
        if body.labels is not None or body.blind is not None:
            ctx.demand(request, "administer")
            study_row(store, body.study)
        for key, values in (("keys", body.keys), ("show", body.show)):
            if values is not None:
                store.set_setting(f"{key}:{name}", values)
        if body.labels is not None:
            findings.set_labels(store, body.study, body.labels, name)
        if body.blind is not None:
            blind.set_blind(store, body.study, body.blind, name)
        return {"ok": True}

    @router.post("/threshold")
    def threshold(request: Request, body: bodies.Threshold):
        """A change of the threshold is an event; the page sends it on release."""
        row = decisions.case_row(ctx.store(), names_of(request).real(body.case))
        audit.record(
            ctx.store(), who(request), "threshold", study=row["study"], case_id=row["id"], before=body.before,
            after=body.to, shown={"run": body.run},
        )  # fmt: skip
        return {"ok": True}

    @router.get("/timeline/{case_id}")
    def timeline(request: Request, case_id: Id, run: Name):
        row = decisions.case_row(ctx.store(), names_of(request).real(case_id))
        if blind.applies(ctx.store(), row["study"], who(request)):
            return {"ok": True, "frames": []}
        frames = cases.timeline(ctx.store(), row["id"], run)
        names = names_of(request)
        return {"ok": True, "frames": [{**f, "id": names.number(row["study"], f["id"])} for f in frames]}

    return router


def _seconds(value: float | None) -> float | None:
    """To a thousandth; None for what no reader can have taken."""
    return round(value, 3) if value is not None and 0 <= value < 1e6 else None
