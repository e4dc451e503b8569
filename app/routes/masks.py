"""The lesion masks that readers draw: save a new version, bring an older one back.

Every answer says `ok`; what went wrong is a sentence (errors.py).
"""

from __future__ import annotations

import numpy as np
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from app.routes._aliases import aliases_of
from app.routes._types import Finite, Id, Line, Name
from core.studio.review import blind, decisions, findings, masks


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/review", include_in_schema=False)

    @router.post("/mask/{case_id}")
    async def save_mask(
        request: Request,
        case_id: Id,
        source: Name = "hand",
        run: Name = "",
        threshold: Finite | None = None,
        note: Line = "",
        label: Name = "",
    ):
        """The body holds the mask's bits (as mask.bits gives them). label: also a finding of that name."""
        bits = await request.body()
        about = {"source": source, "run": run, "threshold": threshold, "note": note, "label": label}
        return await run_in_threadpool(save, request, case_id, bits, about)

    def save(request: Request, case_id: int, bits: bytes, about: dict) -> dict:
        store, name, label = ctx.store(), ctx.user_of(request), about["label"]
        names = aliases_of(ctx, request)
        row = decisions.case_row(store, names.real(case_id))
        blind.demand(store, row, name)
        wanted = -(-row["width"] * row["height"] // 8)
        if len(bits) != wanted:
            raise ValueError(f"The mask has {len(bits)} bytes where its image needs {wanted}.")
        pixels = np.unpackbits(np.frombuffer(bits, np.uint8), count=row["width"] * row["height"])
        with store.write():
            saved = masks.save(
                store,
                row["id"],
                pixels.reshape(row["height"], row["width"]),
                name,
                source="run" if about["source"] == "run" else "hand",
                run=about["run"] or None,
                threshold=about["threshold"],
                note=(about["note"] or label)[:2000],
            )
            if label:
                findings.add(store, row["id"], label, name, about["note"], saved["version"])
        versions = masks.versions(store, row["id"])
        found = findings.of_case(store, row["id"])
        return {"ok": True, **saved, "masks": [names.shown(row["study"], m) for m in versions], "findings": found}

    @router.post("/restore/{mask_id}")
    def restore(request: Request, mask_id: Id):
        store = ctx.store()
        old = masks.version(store, mask_id)
        row = decisions.case_row(store, old["case_id"])
        blind.demand(store, row, ctx.user_of(request))
        done = masks.restore(store, mask_id, ctx.user_of(request))
        versions = [aliases_of(ctx, request).shown(row["study"], m) for m in masks.versions(store, row["id"])]
        return {"ok": True, **done, "masks": versions}

    return router
