"""Permissions of routes, which each route's function must declare as a parameter; otherwise the server does not start.

    @router.get("/{study}", response_model=Accounts)
    def everybody(ctx: Studio, who: Administrator, study: str): ...

`who` is the reader's name. Some permissions depend on more than the route and the owner of an item: exports with names,
folders of the server, adjudication, labels, and cases that are still hidden from a blind reader. `Context.demand` and
core/studio/review/sessions.py check these inside the functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.openapi.models import APIKey, APIKeyIn
from fastapi.routing import APIRoute
from fastapi.security.base import SecurityBase

from app.access.sessions import Sessions
from app.context import Context
from core.studio.db import owners
from core.studio.ingest.records import study_row
from core.studio.review import people, sessions

READER = "reader"  # anyone who is signed in
SIGHTED = "sighted"  # readers who do not read blind now, so that they may see scores, labels and names
OWNER = "owner"  # the reader who made an item, and administrators
ADMINISTRATOR = "administrator"
OVERSEER = "administrator outside of a blind session"  # for reviews and ground truth of cases
NOT_SIGHTED = "You are reading a study blind: until this is done, only Review is open to you."
IN_SESSION = "Your blind session is open: until it has ended, only Review is open to you."


async def studio(request: Request) -> Context:
    """Returns the server's context."""
    return request.app.state.ctx


class May(SecurityBase):
    """FastAPI dependency that returns the reader's name, or raises NotAllowed or Hidden if `role` forbids the request.

    kind, parameter: Kind of an item (core/studio/db/owners.py) and path parameter with its id; only for the role OWNER.
    """

    scheme_name = "session"
    model = APIKey.model_validate({"in": APIKeyIn.cookie, "name": Sessions.COOKIE})

    def __init__(self, role: str, kind: str = "", parameter: str = ""):
        self.role, self.kind, self.parameter = role, kind, parameter

    def __call__(self, request: Request) -> str:  # runs in a thread, because it reads the store
        name = self._permitted(request)
        _demand_study(request)
        return name

    def _permitted(self, request: Request) -> str:
        ctx: Context = request.app.state.ctx
        name = _signed_in(request)
        if self.role in (ADMINISTRATOR, OVERSEER):
            people.demand(ctx.store(), name, ctx.single_user, "administer")
        if self.role == ADMINISTRATOR:
            return name
        if self.role in (SIGHTED, OVERSEER) and sessions.in_blind_session(ctx.store(), name):
            raise sessions.Hidden(IN_SESSION)
        if ctx.single_user or self.role == OVERSEER:
            return name
        if sessions.reads_blind(ctx.store(), name):
            raise sessions.Hidden(NOT_SIGHTED)
        if self.role == OWNER:
            demand_owner(ctx, name, self.kind, str(request.path_params[self.parameter]))
        return name


class _MayRead(May):
    """Permits anyone who is signed in. It needs no thread, as it reads no data. `Context.reading` checks the study."""

    async def __call__(self, request: Request) -> str:  # type: ignore[override]
        return _signed_in(request)


def _demand_study(request: Request) -> None:
    """Raises NotFound if the request names an unknown study, which would otherwise look like an empty one.

    The audit trail and the bin accept studies that no longer exist.
    """
    study = request.path_params.get("study") or request.query_params.get("study")
    if study and not request.url.path.startswith(("/api/audit", "/api/bin")):
        study_row(request.app.state.ctx.store(), study)


def _signed_in(request: Request) -> str:
    name = request.app.state.ctx.user_of(request)
    if name is None:
        raise people.NotAllowed("Please sign in.")
    return name


def owner_of(kind: str, parameter: str) -> Any:
    """Returns a dependency that admits administrators and the owner of the item whose id is in the path `parameter`."""
    return Security(May(OWNER, kind, parameter), scopes=[f"{OWNER} of the {kind}"])


Studio = Annotated[Context, Depends(studio)]
Reader = Annotated[str, Security(_MayRead(READER), scopes=[READER])]
Sighted = Annotated[str, Security(May(SIGHTED), scopes=[SIGHTED])]
Administrator = Annotated[str, Security(May(ADMINISTRATOR), scopes=[ADMINISTRATOR])]
Overseer = Annotated[str, Security(May(OVERSEER), scopes=[OVERSEER])]


def permission_of(route: APIRoute) -> May | None:
    """Returns the permission that a route declares, or None if it declares none."""
    waiting: list[Dependant] = [route.dependant]
    while waiting:
        dependant = waiting.pop()
        if isinstance(dependant.call, May):
            return dependant.call
        waiting += dependant.dependencies
    return None


def closed(routes: Iterable[APIRoute], in_session: bool) -> list[str]:
    """Returns regular expressions for the paths of all GET routes that are closed to blind readers.

    in_session: Whether the reader has an open blind session, during which routes are closed to administrators too.
    """
    roles = (SIGHTED, OVERSEER) if in_session else (SIGHTED, OWNER)
    return [
        re.sub(r"{[^}]+}", "[^/]+", route.path)
        for route in routes
        if "GET" in (route.methods or ()) and (may := permission_of(route)) and may.role in roles
    ]  # fmt: skip


def include(server: FastAPI, router: APIRouter, **options: Any) -> None:
    """Adds a router to the server. The options are those of `FastAPI.include_router`.

    The first line of a function's docstring becomes the summary of its route in openapi.json. Raises RuntimeError for a
    route that has no docstring or does not declare who may use it.
    """
    for route in router.routes:
        assert isinstance(route, APIRoute)
        name = f"{' '.join(sorted(route.methods or ()))} {route.path}"
        if permission_of(route) is None:
            raise RuntimeError(
                f"{name} does not declare who may use it: give its function a parameter of type Reader, Sighted, "
                "Administrator, Overseer or Annotated[str, owner_of(...)] (app/access/permissions.py)"
            )
        if not route.description:
            raise RuntimeError(f"{name} has no docstring, whose first line is its sentence in openapi.json")
        route.summary = route.description.splitlines()[0].rstrip(".")
    server.include_router(router, **options)


def demand_owner(ctx: Context, name: str, kind: str, id: str) -> None:
    """Raises NotAllowed unless `name` owns the item or is an administrator. Single-user mode permits everything."""
    if ctx.single_user or owners.owner(ctx.store(), kind, id) == name:
        return
    if not ctx.administers(name):
        raise people.NotAllowed("Only an administrator, or the reader who made this item, may change it.")
