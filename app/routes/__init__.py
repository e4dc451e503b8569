"""Routes of the page: one module per resource, with a `router` and the models of request bodies and answers."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from app.access import permissions
from app.routes._types import Failed

REFUSALS = {"4XX": {"model": Failed, "description": "One sentence on what is wrong with the request"}}


def routers() -> list[APIRouter]:
    """Returns the routers of this folder's modules, in the order of the modules' names."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [module.router for module in modules if hasattr(module, "router")]


def every_route(given: Iterable[APIRouter] | None = None) -> list[APIRoute]:
    """Returns all routes of the page, or those of the given routers."""
    chosen = routers() if given is None else given
    return [route for router in chosen for route in router.routes if isinstance(route, APIRoute)]


def include_all(server: FastAPI, ctx, given: Iterable[APIRouter] | None = None) -> None:
    """Adds all routers, or the given ones, to the server, and gives their functions the context `ctx`.

    Raises RuntimeError if a route has no docstring or does not declare who may use it.
    """
    server.state.ctx = ctx
    for router in routers() if given is None else given:
        permissions.include(server, router, responses=REFUSALS)


def openapi() -> dict:
    """Returns the contents of openapi.json without running a server."""
    server = FastAPI(title="PMSACL Studio")
    include_all(server, None)
    return server.openapi()
