"""Benchmarks by name: modules in a floor's folder `benches` with `run(quick=False) -> dict`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import time
from dataclasses import dataclass

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
    soak: bool = False,
    data: str | None = None,
    decisions: int | None = None,
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
    for option, given, lack in (
        ("only", tuple(only) if only else None, "has no parts"),
        ("seconds", seconds, "has no length"),
        ("soak", soak or None, "has no soak"),
        ("data", data, "makes its own images"),
        ("decisions", decisions, "decides nothing"),
    ):
        if given is not None:
            if option not in inspect.signature(function).parameters:
                raise ValueError(f"the benchmark {key!r} {lack}: leave --{option} out")
            options[option] = given
    started = time.monotonic()
    result = function(**options)
    return {"bench": key, **result, "seconds": round(time.monotonic() - started, 2)}


@dataclass(frozen=True)
class Aim:
    """What a benchmark's figure should be: at least `value`, or at most. key: of the figure in its result."""

    value: float
    at_least: bool = False
    key: str = "ratio"

    def met(self, figure: float) -> bool:
        return figure >= self.value if self.at_least else figure <= self.value


AIMS = {
    "augment": Aim(5, at_least=True),
    "pretrain": Aim(1.10),
    "padim-fit": Aim(10, at_least=True),
    "padim-score": Aim(1.05),
    "nearest-score": Aim(1.5),
    "lesion-score": Aim(1.15),
    "igd-score": Aim(5, at_least=True),
    "igd-train": Aim(5, at_least=True),
    "metrics": Aim(5, at_least=True),
    "start": Aim(1, key="over_import"),
    "study": Aim(1.3),
    "gpu": Aim(0.9, at_least=True),
}


def run_all(quick: bool = False, device: str = "auto", only: list[str] | None = None) -> dict:
    """Every benchmark that has an aim, or those named: {"bench": "all", "benches": [{"name", "ratio", "aim", "met"}]}.

    figure: what the aim is about, where that is not the ratio. One that fails is listed with its error and not met.
    """
    unknown = sorted(set(only or ()) - set(AIMS))
    if unknown:
        raise ValueError(f"no benchmark with an aim is called {unknown[0]!r}; there are: {', '.join(AIMS)}")
    started, rows = time.monotonic(), []
    for name in only or AIMS:
        aim = AIMS[name]
        row = {"name": name, "aim": aim.value, "at_least": aim.at_least, "figure": aim.key}
        try:
            found = run(name, quick, device)
            if found[aim.key] is None:
                raise ValueError(found["missing"])
            row |= {"ratio": found["ratio"], aim.key: found[aim.key], "met": aim.met(found[aim.key]), "result": found}
        except Exception as error:
            row |= {"ratio": None, "met": False, "error": f"{type(error).__name__}: {error}"}
        rows.append(row)
    return {"bench": "all", "quick": quick, "benches": rows, "seconds": round(time.monotonic() - started, 2)}
