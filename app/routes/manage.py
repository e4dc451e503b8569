"""What an administrator sets for a study: the watched folder, who reads which case, the labels of findings."""

from __future__ import annotations

from fastapi import APIRouter, Request

from app.routes import _bodies as bodies
from core.studio.incoming import watch
from core.studio.ingest.studies import study_row
from core.studio.review import findings, readers
from core.studio.runs.records import list_runs


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/manage", include_in_schema=False)

    @router.get("")
    def rights(request: Request):
        """Whether these forms are for whoever asks: the page does not show them to others."""
        return {"ok": True, **readers.rights(ctx.store(), ctx.user_of(request), ctx.single_user)}

    @router.get("/{study}")
    def everything(study: str):
        store = ctx.store()
        study_row(store, study)
        fits = [r for r in list_runs(store, study, kind="fit") if r["status"] == "done"]
        return {
            "ok": True,
            "watch": watch.get_watch(store, study),
            "runs": [{k: r[k] for k in ("id", "name", "method", "created")} for r in reversed(fits)],
            "labels": findings.labels(store, study),
            **readers.dealt(store, study),
        }

    @router.get("/{study}/watch")
    def watched(study: str):
        return {"ok": True, "watch": watch.get_watch(ctx.store(), study)}

    @router.post("/{study}/watch")
    def set_watch(request: Request, study: str, body: bodies.Watch):
        if body.folder:
            ctx.demand_root(body.folder)
        done = watch.set_watch(
            ctx.store(),
            study,
            body.folder or "",
            ctx.user_of(request),
            body.run or None,
            body.active,
            body.copies,
        )
        return {"ok": True, "watch": done}

    @router.post("/{study}/labels")
    def set_labels(request: Request, study: str, body: bodies.Labels):
        who = ctx.user_of(request)
        study_row(ctx.store(), study)
        return {"ok": True, "labels": findings.set_labels(ctx.store(), study, body.labels, who)}

    @router.post("/{study}/assign")
    def assign(request: Request, study: str, body: bodies.Assign):
        who, store = ctx.user_of(request), ctx.store()
        study_row(store, study)
        unknown = sorted(set(body.readers) - set(readers.known_readers(store, study)))
        if unknown:
            raise ValueError(f"there is no reader called {unknown[0]!r}; `reader add` makes an account")
        readers.assign(store, study, body.readers, who, per_case=body.per_case)
        return {"ok": True, **readers.dealt(store, study)}

    @router.post("/{study}/unassign")
    def unassign(request: Request, study: str, body: bodies.Unassign):
        """Takes back what `reader` has not read yet."""
        who, store = ctx.user_of(request), ctx.store()
        study_row(store, study)
        gone = readers.unassign(store, study, body.reader, who)
        return {"ok": True, "taken_back": gone, **readers.dealt(store, study)}

    return router
