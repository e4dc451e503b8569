"""Benchmarks by name: modules in a floor's folder `benches` with `run(quick=False) -> dict`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import time

PACKAGES = ("core.engine.benches", "core.studio.benches", "app.benches")


def _modules() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        path = importlib.import_module(package).__path__
        names = [m.name for m in pkgutil.iter_modules(path) if not m.name.startswith("_")]
        found |= {name.replace("_", "-"): f"{package}.{name}" for name in names}
    return dict(sorted(found.items()))


def titles() -> dict[str, str]:
    """name -> the first line of what the benchmark says of itself."""
    return {name: (importlib.import_module(m).__doc__ or "").strip().split("\n")[0] for name, m in _modules().items()}


def run(
    name: str,
    quick: bool = False,
    device: str = "auto",
    only: list[str] | None = None,
    seconds: float | None = None,
) -> dict:
    """The benchmark's result with its name and seconds. ValueError names the benchmarks there are, or their parts."""
    modules = _modules()
    key = name.replace("_", "-")
    if key not in modules:
        raise ValueError(f"there is no benchmark {name!r}; there are: {', '.join(modules)}")
    function = importlib.import_module(modules[key]).run
    options: dict = {"quick": quick}
    if "device" in inspect.signature(function).parameters:
        options["device"] = device
    if only:
        if "only" not in inspect.signature(function).parameters:
            raise ValueError(f"the benchmark {key!r} has no parts: leave --only out")
        options["only"] = tuple(only)
    if seconds is not None:
        if "seconds" not in inspect.signature(function).parameters:
            raise ValueError(f"the benchmark {key!r} has no length: leave --seconds out")
        options["seconds"] = seconds
    started = time.monotonic()
    result = function(**options)
    return {"bench": key, **result, "seconds": round(time.monotonic() - started, 2)}
