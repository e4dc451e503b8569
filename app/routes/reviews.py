"""The review room's JSON: open a study, page through the worklist, decide, undo, keep masks.

Every answer that follows from a change says `ok`. ValueErrors become {"ok": false, "error": sentence} with status 400.
"""

from __future__ import annotations

import json
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Body, Request

from core.studio.db import audit
from core.studio.ingest.studies import study_row
from core.studio.review import blind, cases, decisions, findings, masks, readers, worklist

Json = Annotated[dict, Body()]
AHEAD = 3  # cases whose pictures the page fetches before they are asked for
LARGEST_MASK = 64 * 1024 * 1024


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/review", include_in_schema=False)

    def who(request: Request) -> str:
        return ctx.user_of(request)

    def query(request: Request, values: dict | None = None):
        return cases.asked(ctx.store(), who(request), dict(request.query_params) if values is None else values)

    @router.get("/open")
    def open_study(request: Request, study: str):
        """What the room needs once: runs, labels, settings, counts, rights."""
        store, name = ctx.store(), who(request)
        study_row(store, study)
        blinded = blind.applies(store, study, name)
        runs = cases.scored_runs(store, study)
        return {
            "ok": True,
            "study": study,
            "reader": name,
            "rights": readers.rights(store, name, ctx.single_user),
            "blind": blind.is_blind(store, study),
            "blinded": blinded,
            "runs": runs,
            "labels": findings.labels(store, study),
            "keys": store.setting(f"keys:{name}", {}),
            "show": store.setting(f"show:{name}", {}),
        }

    @router.get("/list")
    def listed(request: Request, cursor: str = "", limit: int = worklist.PAGE, at: int = -1):
        q, store = query(request), ctx.store()
        after = tuple(json.loads(cursor)) if cursor else (worklist.position(store, q, at) if at > 0 else None)
        return {"ok": True, **worklist.page(store, q, after, min(max(limit, 1), 500))}

    @router.get("/counts")
    def counts(request: Request):
        return {"ok": True, **worklist.counts(ctx.store(), query(request))}

    @router.get("/step")
    def step(request: Request, case: int = 0, back: int = 0, unread: int = 0):
        """The case after (or before) one in the list's order, with its detail; case 0: the first."""
        values = dict(request.query_params)
        if unread:
            values["decision"] = "unread"
        return _step(request, values, case or None, bool(back))

    def _step(request: Request, values: dict, case: int | None, back: bool = False) -> dict:
        store, q = ctx.store(), query(request, values)
        ids = worklist.neighbour(store, q, case, backwards=back, count=1 + AHEAD)
        if not ids:
            return {"ok": True, "case": None, "ahead": []}
        return {"ok": True, "case": _detail(request, ids[0], values), "ahead": _ahead(store, ids[1:])}

    def _ahead(store, ids: list[int]) -> list[dict]:
        rows = [decisions.case_row(store, i) for i in ids]
        return [{"id": r["id"], "v": f"{r['sha256'] or ''}"[:10], "bits": r["bits"]} for r in rows]

    def _detail(request: Request, case_id: int, values: dict) -> dict:
        store = ctx.store()
        runs = cases.scored_runs(store, values["study"])
        return cases.detail(store, case_id, who(request), values.get("run") or None, runs)

    @router.get("/case/{case_id}")
    def case(request: Request, case_id: int):
        row = decisions.case_row(ctx.store(), case_id)
        values = {**request.query_params, "study": row["study"]}
        return {"ok": True, "case": _detail(request, case_id, values), "ahead": []}

    @router.post("/decide")
    def decide(request: Request, body: Json):
        """Stores the decision, then (and only then) answers with the next case of the list."""
        store, name = ctx.store(), who(request)
        adjudicating = bool(body.get("adjudication"))
        if adjudicating:
            readers.demand(store, name, ctx.single_user, "adjudicate")
        case_id = int(body["case"])
        blinded = blind.hides(store, decisions.case_row(store, case_id), name)
        done = decisions.decide(
            store,
            case_id,
            name,
            body["decision"],
            comment=str(body.get("comment") or "")[:4000],
            seconds=_seconds(body.get("seconds")),
            run=body.get("run"),
            shown=body.get("shown") or {},
            adjudication=adjudicating,
            token=body.get("token"),
        )
        values = body.get("list") or {}
        if blinded or not values:
            # The reader has committed: the same case comes again, now with what the run says.
            row = decisions.case_row(store, case_id)
            return {
                "ok": True,
                **done,
                "next": _detail(request, case_id, {"study": row["study"], **values}),
                "ahead": [],
            }
        found = _step(request, values, case_id)
        return {"ok": True, **done, "next": found["case"], "ahead": found["ahead"]}

    @router.post("/undo")
    def undo(request: Request, body: Json):
        return _back(request, body, decisions.undo, "There is nothing to undo.")

    @router.post("/redo")
    def redo(request: Request, body: Json):
        return _back(request, body, decisions.redo, "There is nothing to redo.")

    def _back(request: Request, body: dict, act, nothing: str) -> dict:
        done = act(ctx.store(), body["study"], who(request), body.get("token"))
        if done is None:
            return {"ok": False, "error": nothing}
        values = body.get("list") or {"study": body["study"]}
        return {"ok": True, **done, "next": _detail(request, done["case"], values), "ahead": []}

    @router.post("/mask/{case_id}")
    async def save_mask(request: Request, case_id: int):
        """The body holds the mask's bits (as mask.bits gives them); the query: source, run, threshold, note, label."""
        from starlette.concurrency import run_in_threadpool

        if int(request.headers.get("content-length") or 0) > LARGEST_MASK:
            raise ValueError("The mask is larger than any image that can be read.")
        bits = await request.body()
        return await run_in_threadpool(_save_mask, request, case_id, bits)

    def _save_mask(request: Request, case_id: int, bits: bytes) -> dict:
        store, name, given = ctx.store(), who(request), request.query_params
        row = decisions.case_row(store, case_id)
        blind.demand(store, row, name)
        wanted = -(-row["width"] * row["height"] // 8)
        if len(bits) != wanted:
            raise ValueError(f"The mask has {len(bits)} bytes where its image needs {wanted}.")
        pixels = np.unpackbits(np.frombuffer(bits, np.uint8), count=row["width"] * row["height"])
        threshold, label = given.get("threshold"), given.get("label", "")
        with store.write():
            saved = masks.save(
                store,
                case_id,
                pixels.reshape(row["height"], row["width"]),
                name,
                source="run" if given.get("source") == "run" else "hand",
                run=given.get("run") or None,
                threshold=float(threshold) if threshold else None,
                note=(given.get("note") or label)[:2000],
            )
            if label:
                findings.add(store, case_id, label, name, given.get("note", ""), saved["version"])
        return {"ok": True, **saved, "masks": masks.versions(store, case_id)}

    @router.post("/restore/{mask_id}")
    def restore(request: Request, mask_id: int):
        store = ctx.store()
        old = masks.version(store, mask_id)
        blind.demand(store, decisions.case_row(store, old["case_id"]), who(request))
        return {
            "ok": True,
            **masks.restore(store, mask_id, who(request)),
            "masks": masks.versions(store, old["case_id"]),
        }

    @router.post("/settings")
    def settings(request: Request, body: Json):
        """keys and show are the reader's own; labels and blind belong to the study (administrators)."""
        store, name = ctx.store(), who(request)
        for key in ("keys", "show"):
            if isinstance(body.get(key), dict):
                store.set_setting(f"{key}:{name}", body[key])
        if "labels" in body:
            readers.demand(store, name, ctx.single_user, "administer")
            findings.set_labels(store, body["study"], [str(v) for v in body["labels"]], name)
        if "blind" in body:
            readers.demand(store, name, ctx.single_user, "administer")
            blind.set_blind(store, body["study"], bool(body["blind"]), name)
        return {"ok": True}

    @router.post("/threshold")
    def threshold(request: Request, body: Json):
        """A change of the threshold is an event; it is told once it has come to rest."""
        case_id = int(body["case"])
        row = decisions.case_row(ctx.store(), case_id)
        audit.record(
            ctx.store(), who(request), "threshold", study=row["study"], case_id=case_id, before=body.get("from"),
            after=body.get("to"), shown={"run": body.get("run")},
        )  # fmt: skip
        return {"ok": True}

    @router.get("/timeline/{case_id}")
    def timeline(request: Request, case_id: int, run: str):
        row = decisions.case_row(ctx.store(), case_id)
        if blind.applies(ctx.store(), row["study"], who(request)):
            return {"ok": True, "frames": []}
        return {"ok": True, "frames": cases.timeline(ctx.store(), case_id, run)}

    return router


def _seconds(value) -> float | None:
    return round(float(value), 3) if isinstance(value, (int, float)) and 0 <= value < 1e6 else None
