"""Finds the page's own routes: every app/routes_NAME.py with `def routes(ctx) -> APIRouter`."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import app


def router_modules() -> list[ModuleType]:
    """The modules, in the order of their names."""
    names = sorted(m.name for m in pkgutil.iter_modules(app.__path__) if m.name.startswith("routes_"))
    return [importlib.import_module(f"app.{name}") for name in names]


def include_all(server, ctx) -> None:
    """Adds every module's router. Who may ask is decided once, for all of them, in app/guard.py."""
    for module in router_modules():
        server.include_router(module.routes(ctx))
