"""What an administrator sets for a study: the watched folder, who reads which case, the labels of findings."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Request

from core.studio.incoming import watch
from core.studio.ingest.studies import study_row
from core.studio.review import findings, readers
from core.studio.runs.records import list_runs

Json = Annotated[dict, Body()]


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/manage", include_in_schema=False)

    def administrator(request: Request) -> str:
        name = ctx.user_of(request)
        readers.demand(ctx.store(), name, ctx.single_user, "administer")
        return name

    @router.get("")
    def rights(request: Request):
        """Whether these forms are for whoever asks: the page does not show them to others."""
        return {"ok": True, **readers.rights(ctx.store(), ctx.user_of(request), ctx.single_user)}

    @router.get("/{study}")
    def everything(request: Request, study: str):
        administrator(request)
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
    def watched(request: Request, study: str):
        administrator(request)
        return {"ok": True, "watch": watch.get_watch(ctx.store(), study)}

    @router.post("/{study}/watch")
    def set_watch(request: Request, study: str, body: Json):
        """folder, run ('' for the one that Review opens with), active, copy."""
        who = administrator(request)
        done = watch.set_watch(
            ctx.store(),
            study,
            str(body.get("folder") or ""),
            who,
            str(body.get("run") or "") or None,
            bool(body.get("active", True)),
            bool(body.get("copy", False)),
        )
        return {"ok": True, "watch": done}

    @router.post("/{study}/labels")
    def set_labels(request: Request, study: str, body: Json):
        who = administrator(request)
        study_row(ctx.store(), study)
        return {"ok": True, "labels": findings.set_labels(ctx.store(), study, _texts(body.get("labels")), who)}

    @router.post("/{study}/assign")
    def assign(request: Request, study: str, body: Json):
        """readers, per_case: 1, or 2 for double reading."""
        who, store = administrator(request), ctx.store()
        study_row(store, study)
        names = _texts(body.get("readers"))
        unknown = sorted(set(names) - set(readers.known_readers(store, study)))
        if unknown:
            raise ValueError(f"there is no reader called {unknown[0]!r}; `reader add` makes an account")
        readers.assign(store, study, names, who, per_case=int(body.get("per_case") or 1))
        return {"ok": True, **readers.dealt(store, study)}

    @router.post("/{study}/unassign")
    def unassign(request: Request, study: str, body: Json):
        """Takes back what `reader` has not read yet."""
        who, store = administrator(request), ctx.store()
        study_row(store, study)
        gone = readers.unassign(store, study, str(body.get("reader") or ""), who)
        return {"ok": True, "taken_back": gone, **readers.dealt(store, study)}

    return router


def _texts(values) -> list[str]:
    return [str(v) for v in values] if isinstance(values, list) else []
