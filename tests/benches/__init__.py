"""Benchmarks: functions `(quick=False, ...) -> dict` that `@bench(name)` lists, in the files of this folder.

`python launch.py bench` runs them from a clone of the source; they are not installed.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parents[2]  # of the clone, from which processes of a benchmark are started
Run = TypeVar("Run", bound=Callable[..., dict[str, Any]])


@dataclass(frozen=True)
class Aim:
    """The aim of a benchmark's figure: at least `value`, or at most. key: of the figure in the benchmark's result."""

    value: float
    at_least: bool = False
    key: str = "ratio"

    def met(self, figure: float) -> bool:
        return figure >= self.value if self.at_least else figure <= self.value


@dataclass(frozen=True)
class Bench:
    """A benchmark: `run(quick=False, ...)` returns its figures; its docstring's first line is its title."""

    run: Callable[..., dict[str, Any]]
    aim: Aim | None


BENCHES: dict[str, Bench] = {}  # by name, filled as their modules are imported


def bench(name: str, aim: Aim | None = None) -> Callable[[Run], Run]:
    """Lists the decorated function as the benchmark `name`. ValueError if there is one of that name already."""

    def listed(run: Run) -> Run:
        if name in BENCHES:
            raise ValueError(f"there are two benchmarks called {name!r}")
        BENCHES[name] = Bench(run, aim)
        return run

    return listed


def medians(
    whats: list[Callable[[], object]], rounds: int, *, warm: int = 1, device: torch.device | None = None
) -> list[float]:
    """Measures the median seconds of each function over `rounds` turns, after `warm` turns that are left out.

    device: where the work is done; a CUDA device is waited for before the clock stops.
    """
    seconds: list[list[float]] = [[] for _ in whats]
    for turn in range(rounds + warm):
        for what, taken in zip(whats, seconds, strict=True):
            start = time.perf_counter()
            what()
            if device is not None and device.type == "cuda":
                import torch

                torch.cuda.synchronize(device)
            if turn >= warm:
                taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in seconds]


def _all() -> dict[str, Bench]:
    """Returns every benchmark by its name; importing the modules lists them."""
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith(("_", "test_")) and not module.ispkg:
            importlib.import_module(f"{__name__}.{module.name}")
    return dict(sorted(BENCHES.items()))


def titles() -> dict[str, str]:
    """Returns name -> the benchmark's title, the first line of its docstring."""
    return {name: (listed.run.__doc__ or "").strip().split("\n")[0] for name, listed in _all().items()}


def aims() -> dict[str, Aim]:
    """Returns name -> what its figure should be, of the benchmarks that have an aim."""
    return {name: listed.aim for name, listed in _all().items() if listed.aim}


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
    """Runs a benchmark and returns its result, with its name and the seconds it took.

    Raises ValueError for an unknown name or part, with those there are, and for an option that it does not take.
    """
    benches = _all()
    key = name.replace("_", "-")
    if key not in benches:
        raise ValueError(f"unknown benchmark {name!r}; choose from: {', '.join(benches)}")
    function = benches[key].run
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


def run_all(quick: bool = False, device: str = "auto", only: list[str] | None = None) -> dict:
    """Runs every benchmark that has an aim, or those named.

    -> {"bench": "all", "benches": [{"name", "ratio", "aim", "met"}]}. figure: what the aim is about, where that is not
    the ratio. One that fails is listed with its error and not met.
    """
    named = aims()
    unknown = sorted(set(only or ()) - set(named))
    if unknown:
        raise ValueError(f"no benchmark with an aim is called {unknown[0]!r}; choose from: {', '.join(named)}")
    started, rows = time.monotonic(), []
    for name in only or named:
        aim = named[name]
        row = {"name": name, "aim": aim.value, "at_least": aim.at_least, "figure": aim.key}
        try:
            result = run(name, quick, device)
            if result[aim.key] is None:
                raise ValueError(result["missing"])
            row |= {
                "ratio": result["ratio"],
                aim.key: result[aim.key],
                "met": aim.met(result[aim.key]),
                "result": result,
            }
        except Exception as error:
            row |= {"ratio": None, "met": False, "error": f"{type(error).__name__}: {error}"}
        print(f"{name}: {row[aim.key] if 'result' in row else row['error']}", flush=True)
        rows.append(row)
    return {"bench": "all", "quick": quick, "benches": rows, "seconds": round(time.monotonic() - started, 2)}
