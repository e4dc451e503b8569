"""Who may do what: one row for each route. A route without a row is refused, and fails a test.

What hangs on more than the route and its maker is checked inside, by `Context.demand` and core/studio/review/blind.py:
exports with names, folders of the server, adjudication, labels, a case that is still hidden from a blind reader.
"""

from __future__ import annotations

from typing import NamedTuple

from fastapi import Request

from core.studio.db import owners
from core.studio.review import blind, readers

READER = "reader"  # whoever is signed in
SIGHTED = "sighted"  # not while a study is read blind: these show scores, labels and names
OWNER = "owner"  # the one who made it, and administrators
ADMINISTRATOR = "administrator"
NOT_SIGHTED = "A study is being read blind: until it is done, only Review is open to its readers."


class Rule(NamedTuple):
    """level; of OWNER also what is owned (core/studio/db/owners.py) and the path's parameter that names it."""

    level: str
    kind: str = ""
    parameter: str = ""


_PATHS: dict[str, dict[str, str]] = {
    READER: {
        "/api/status": "GET",
        "/api/status/plan": "GET",
        "/api/case/{case_id}/image.png": "GET",
        "/api/case/{case_id}/thumb.png": "GET",
        "/api/case/{case_id}/tile.webp": "GET",
        "/api/case/{case_id}/raw": "GET",
        "/api/case/{case_id}/mask.png": "GET",
        "/api/case/{case_id}/mask.bits": "GET",
        "/api/case/{case_id}/heat": "GET",
        "/api/case/{case_id}/roi.bits": "GET",
        "/api/case/{case_id}/pack": "GET",
        "/api/case/{case_id}/nearest": "GET",
        "/api/case/{case_id}/explain": "GET",
        "/api/export/{study}/warning": "GET",
        "/api/export/{study}/{kind}": "POST",
        "/api/manage": "GET",
        "/api/medmix/forms": "GET",
        "/api/medmix/grid": "POST",
        "/api/medmix/figure.{kind}": "POST",
        "/api/medmix/probe": "POST",
        "/api/medmix/donors": "GET",
        "/api/medmix/presets": "GET POST",
        "/api/medmix/presets.yaml": "POST",
        "/api/medmix/presets/read": "POST",
        "/api/review/open": "GET",
        "/api/review/list": "GET",
        "/api/review/counts": "GET",
        "/api/review/overview": "GET",
        "/api/review/place": "GET",
        "/api/review/tag": "POST",
        "/api/review/step": "GET",
        "/api/review/case/{case_id}": "GET",
        "/api/review/decide": "POST",
        "/api/review/undo": "POST",
        "/api/review/redo": "POST",
        "/api/review/mask/{case_id}": "POST",
        "/api/review/restore/{mask_id}": "POST",
        "/api/review/segment/{case_id}": "POST",
        "/api/review/settings": "POST",
        "/api/review/threshold": "POST",
        "/api/review/timeline/{case_id}": "GET",
        "/api/review/drafts": "GET",
        "/api/review/finding": "POST",
        "/api/review/finding/{finding}": "DELETE",
        "/api/reading": "GET",
        "/api/reading/start": "POST",
        "/api/reading/end": "POST",
        "/api/reading/{session}/summary": "GET",
        "/api/reading/{session}/report": "GET",
        "/api/review/draft/{case_id}": "GET POST DELETE",
        "/walk": "GET",
        "/tour": "GET",
        "/api/tour": "GET",
        "/api/tour/steps": "GET",
    },
    SIGHTED: {
        "/api/clusters/runs": "GET",
        "/api/clusters/maps": "GET POST",
        "/api/clusters/maps/{key}": "GET",
        "/api/clusters/maps/{key}/stop": "POST",
        "/api/clusters/maps/{key}/coords": "GET",
        "/api/clusters/maps/{key}/columns": "GET",
        "/api/clusters/maps/{key}/points/{point}": "GET",
        "/api/clusters/maps/{key}/points/{point}/thumb.png": "GET",
        "/api/clusters/maps/{key}/points/{point}/image.png": "GET",
        "/api/clusters/maps/{key}/points/{point}/heat.png": "GET",
        "/api/clusters/maps/{key}/points/{point}/neighbours": "GET",
        "/api/clusters/maps/{key}/tag": "POST",
        "/api/clusters/maps/{key}/worklist": "POST",
        "/api/clusters/maps/{key}/file.{format}": "GET",
        "/api/clusters/views": "POST",
        "/api/clusters/maps/{key}/placed": "GET POST",
        "/api/clusters/maps/{key}/placed/{new}/coords": "GET",
        "/api/clusters/maps/{key}/placed/{new}/{image}": "GET",
        "/api/clusters/maps/{key}/placed/{new}/{image}/thumb.png": "GET",
        "/api/clusters/maps/{key}/placed/{new}/{image}/image.png": "GET",
        "/api/bin": "GET",
        "/api/learn/{study}": "GET POST",
        "/api/report/{study}": "GET",
        "/api/report/{study}/file.{kind}": "GET",
        "/api/results/{study}": "GET",
        "/api/results/{study}/sizes": "GET",
        "/api/study/drop": "POST",
        "/api/study/{study}/overview": "GET",
        "/api/study/{study}/sample": "GET",
        "/api/study/{study}/next": "GET",
        "/api/study/case/{case_id}/tile.png": "GET",
        "/api/study/case/{case_id}/outlines": "GET",
        "/api/training/forms": "GET",
        "/api/training/check": "POST",
        "/api/training/dry": "POST",
        "/api/training/start": "POST",
        "/api/training/runs": "GET",
        "/api/training/run/{run_id}": "GET",
        "/api/training/run/{run_id}/batch.png": "GET",
        "/api/training/run/{run_id}/fit": "POST",
        "/api/training/run/{run_id}/frees": "POST",
        "/api/training/run/{run_id}/repeat": "POST",
        "/api/training/compare": "GET",
    },
    ADMINISTRATOR: {
        "/api/accounts": "POST",
        "/api/accounts/{study}": "GET",
        "/api/accounts/set/role": "POST",
        "/api/accounts/set/password": "POST",
        "/api/accounts/set/removed": "POST",
        "/api/audit": "GET",
        "/api/bin/study/{study}/restore": "POST",
        "/api/export/bundle": "POST",
        "/api/report/{study}": "POST",
        "/api/status/stop/{job}": "POST",
        "/api/manage/{study}": "GET",
        "/api/manage/{study}/watch": "GET POST",
        "/api/manage/{study}/labels": "POST",
        "/api/manage/{study}/assign": "POST",
        "/api/manage/{study}/unassign": "POST",
        "/api/study/import": "POST",
        "/api/study/import/{task}": "GET",
        "/api/study/import/{task}/stop": "POST",
        "/api/study/{study}/add": "POST",
        "/api/study/{study}/look": "POST",
        "/api/study/{study}/kind": "POST",
        "/api/study/demo": "POST",
        "/api/study/{study}": "DELETE",
        "/api/tour/prepare": "POST",
        "/api/tour/reset": "POST",
    },
}
RULES: dict[str, Rule] = {
    f"{method} {path}": Rule(level)
    for level, paths in _PATHS.items()
    for path, methods in paths.items()
    for method in methods.split()
} | {
    "DELETE /api/clusters/maps/{key}": Rule(OWNER, "map", "key"),
    "DELETE /api/clusters/views/{view}": Rule(OWNER, "view", "view"),
    "DELETE /api/clusters/maps/{key}/placed/{new}": Rule(OWNER, "projection", "new"),
    "DELETE /api/medmix/presets/{name}": Rule(OWNER, "preset", "name"),
    "POST /api/bin/run/{run_id}/restore": Rule(OWNER, "run", "run_id"),
    "PUT /api/study/drop/{token}": Rule(OWNER, "drop", "token"),
    "POST /api/training/run/{run_id}/{action}": Rule(OWNER, "run", "run_id"),
}


def check(ctx, request: Request) -> None:
    """Raises NotAllowed or Hidden unless whoever asks may use the route that was found for the request."""
    rule = RULES.get(f"{request.method} {request.scope['route'].path}")
    if rule is None:
        raise readers.NotAllowed("Nobody may do that yet.")
    name = ctx.user_of(request)
    if name is None:
        raise readers.NotAllowed("Please sign in.")
    if ctx.single_user or rule.level == READER:
        return
    if rule.level == ADMINISTRATOR:
        readers.demand(ctx.store(), name, ctx.single_user, "administer")
        return
    if blind.reads_blind(ctx.store(), name):
        raise blind.Hidden(NOT_SIGHTED)
    if rule.level == OWNER:
        demand_owner(ctx, request, rule.kind, str(request.path_params[rule.parameter]))


def demand_owner(ctx, request: Request, kind: str, id: str) -> None:
    """Raises NotAllowed unless whoever asks made the thing, or administers."""
    name = ctx.user_of(request)
    if ctx.single_user or owners.owner(ctx.store(), kind, id) == name:
        return
    if not readers.rights(ctx.store(), name, ctx.single_user)["administer"]:
        raise readers.NotAllowed("Only an administrator, or the reader who made it, may do that.")
