"""The page's own routes: one file per resource, each with `def routes(ctx) -> APIRouter`."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def router_modules() -> list[ModuleType]:
    """The modules, in the order of their names."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return [importlib.import_module(f"{__name__}.{name}") for name in names]


def include_all(server, ctx) -> None:
    """Add every module's router. Who may ask is decided once, for all of them, in app/access/guard.py."""
    for module in router_modules():
        server.include_router(module.routes(ctx))
