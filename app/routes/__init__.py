"""The page's own routes: one file per resource, each with `def routes(ctx) -> APIRouter`."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from fastapi import Depends, FastAPI, Request

from app.access import permissions


def router_modules() -> list[ModuleType]:
    """The modules that have routes, in the order of their names."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [module for module in modules if hasattr(module, "routes")]


def include_all(server: FastAPI, ctx, modules: list[ModuleType] | None = None) -> None:
    """Add every module's router, or those of `modules`; who may use a route is decided by app/access/permissions.py."""

    def permitted(request: Request) -> None:
        permissions.check(ctx, request)

    for module in router_modules() if modules is None else modules:
        server.include_router(module.routes(ctx), dependencies=[Depends(permitted)])
