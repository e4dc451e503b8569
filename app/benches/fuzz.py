"""Fuzzing: 10,000 hostile inputs for each reader of strangers' data; --only images, dicom, table, preset, zipped,
bundle or requests; --seconds: no longer than that for each.

An input is read or refused with a sentence; anything else, 5 s of computing or 60 s of
waiting for one input, or memory that grows is a failure.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from app.benches._fuzzed import READERS, Reader
from core.engine.allocator import most_memory

INPUTS, QUICK = 10_000, 40
SLOWEST, STUCK = 5.0, 60.0  # seconds of computing, and by the clock, which runs on while other programs have the cores
GROWTH = 600  # MB that reading may add at its peak: a picture may have 150 megapixels, and is refused above


class _Over(BaseException):
    """The time for one reader is over; hypothesis lets this pass as it lets an interrupt."""


def run(quick: bool = False, only: tuple[str, ...] = (), seconds: float = math.inf) -> dict:
    """{"readers": [{"reader", "inputs", "read", "refused", "failed", "slowest", "longest", "growth_mb", "failures"}],

    "failed"}. slowest, longest: seconds that one input was computed on, and by the clock. growth_mb: what reading them
    all added to the most memory held.
    """
    unknown = sorted(set(only) - set(READERS))
    if unknown:
        raise ValueError(f"there is no reader {unknown[0]!r}; there are: {', '.join(READERS)}")
    rows = []
    for name, make in READERS.items():
        if not only or name in only:
            with tempfile.TemporaryDirectory(prefix="pmsacl-fuzz-") as folder:
                reader = make(Path(folder))
                try:
                    rows.append(_fuzz(reader, QUICK if quick else INPUTS, seconds))
                finally:
                    reader.close()
    return {"readers": rows, "failed": sum(row["failed"] for row in rows)}


def _fuzz(reader: Reader, inputs: int, seconds: float = math.inf) -> dict:
    try:
        from hypothesis import HealthCheck, Phase, given, settings
    except ImportError:
        raise ValueError("fuzzing needs hypothesis: pip install -r tests/requirements.txt") from None
    counts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    slowest = longest = 0.0
    before, began = _peak_mb(), time.monotonic()

    @settings(
        max_examples=inputs, database=None, deadline=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(_requests(reader) if reader.name == "requests" else _changed(reader.seeds))
    def one(data: Any) -> None:
        nonlocal slowest, longest
        started, computed = time.monotonic(), time.process_time()
        if started - began > seconds:
            raise _Over
        try:
            reader.read(data)
            counts["read"] += 1
        except ValueError:
            counts["refused"] += 1
        except Exception as error:  # what is looked for here
            failures[f"{type(error).__name__}: {error}"[:300]] += 1
        slowest = max(slowest, time.process_time() - computed)
        longest = max(longest, time.monotonic() - started)

    with contextlib.suppress(_Over):
        one()
    growth = _peak_mb() - before
    failed = sum(failures.values()) + (slowest > SLOWEST) + (longest > STUCK) + (growth > GROWTH)
    return {
        "reader": reader.name,
        "inputs": counts.total() + sum(failures.values()),
        **{kind: counts[kind] for kind in ("read", "refused")},
        "failed": failed,
        "slowest": round(slowest, 3),
        "longest": round(longest, 3),
        "growth_mb": round(growth, 1),
        "failures": dict(failures.most_common(10)),
    }


def _changed(seeds: list[bytes]):
    """A seed with some bytes changed, cut, doubled or put in; now and then random bytes."""
    from hypothesis import strategies as st

    place = st.floats(0, 1, exclude_max=True)
    change = st.tuples(st.sampled_from(["set", "cut", "double", "put", "flip", "zero"]), place, st.binary(max_size=12))

    def apply(seed: bytes, changes: list[tuple[str, float, bytes]]) -> bytes:
        data = bytearray(seed)
        for what, where, new in changes:
            at = int(where * len(data))
            if what == "set":
                data[at : at + len(new)] = new
            elif what == "cut":
                del data[at : at + max(1, len(new) * 20)]
            elif what == "double":
                data[at:at] = data[at : at + 300]
            elif what == "put":
                data[at:at] = new
            elif data:
                data[at] = 0 if what == "zero" else data[at] ^ 0xFF
        return bytes(data)

    whole = st.builds(apply, st.sampled_from(seeds), st.lists(change, min_size=1, max_size=6))
    return st.one_of(whole, whole, whole, st.binary(max_size=600))


def _requests(reader: Reader):
    from hypothesis import strategies as st

    number = st.one_of(st.integers(), st.integers(-(10**30), 10**30), st.floats())
    text = st.one_of(st.text(max_size=40), st.sampled_from(["room", "..", "/", "\0", "x" * 5000]))
    leaf = st.one_of(st.none(), st.booleans(), number, text)
    value = st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=12
    )
    body = st.one_of(value, st.dictionaries(st.sampled_from(reader.seeds), value, max_size=8))
    part = st.one_of(
        st.sampled_from(["1", "0", "x", "a" * 32]), st.from_regex(r"[A-Za-z0-9._~-]{1,40}", fullmatch=True)
    )
    return st.tuples(st.integers(0, 1000), part, body)


def _peak_mb() -> float:
    """The most memory this process has held so far, in MB; 0 where the system does not say."""
    return most_memory(torch.device("cpu")) / 1024**2
