"""What users and their programs hold on to: verbs, flags, keys of --json, exit codes, routes, benches, names of parts.

tests/data/golden.json was made from version 0.2.0. What is new needs no line here; what is gone is named in GONE, with
the reason, and has a line in CHANGELOG.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from app.commands import parser
from app.routes import every_route
from core.engine.registry import BACKBONES, DETECTORS, OBJECTIVES, STRONG
from tests import benches
from tests.tools import VERBS, main

GOLDEN = Path(__file__).parent / "data" / "golden.json"
# What version 0.2 had and this one has not, each with its reason.
GONE: dict[str, str] = {
    "/benches/study": "`bench stages` measures the import of real images, `bench scale` that of many",
    "/said/bench/keys/benches/study": "the same",
    "/benches/learn": "learning from marks is measured by `experiment marks`",
    "/said/bench/keys/benches/learn": "the same",
    "/routes/GET /api/case/{case_id}/mask.png": "no page or program asked for it: mask.bits has the same",
    "/routes/GET /api/manage/{study}/watch": "`GET /api/manage/{study}` answers the same",
    "/routes/GET /walk": "the address that the tour had in version 0.1",
    "/registries/detectors/reconstruction": "no table recommended it; its figures stay in RESULTS.md, its readings too",
    "/said/backup/keys/migrations": "a backup has the version of its schema",
    "/verbs/schema": "the schema is one file, which documents each table and column",
    "/said/schema": "the same",
}
REGISTRIES = {"backbones": BACKBONES, "detectors": DETECTORS, "objectives": OBJECTIVES, "strong": STRONG}
# Verbs that a home answers in a moment; {study} and {run} are filled in.
ASKED = (
    "study list", "study show {study}", "study show nobody", "evaluate {study}", "evaluate nobody", "jobs", "jobs list",
    "jobs pause", "jobs pause 7", "bin list", "bin", "reader list", "roots list", "roots", "watch list", "watch",
    "doctor", "bench", "bench nothing", "backup", "fit nobody", "score nobody", "learn nobody", "look nobody",
    "pretrain nobody", "report nobody", "sheet nobody", "embed nobody", "restore nothing", "choose", "probe nobody",
    "fit {run} --detector nothing", "pretrain {study} --set nothing=1", "setup",
)  # fmt: skip


def verbs(top: argparse.ArgumentParser, name: str = "") -> dict[str, list[str]]:
    """Verb (with its second word, where it has one) -> its flags and positional arguments, sorted."""
    inner = [action for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    if inner:
        return {k: v for word, sub in inner[0].choices.items() for k, v in verbs(sub, f"{name} {word}".strip()).items()}
    return {name: sorted(word for action in top._actions for word in (action.option_strings or [action.dest]))}


def keys(value: Any) -> Any:
    """The keys of an object, with those of the objects in it; of a list what its first one has."""
    if isinstance(value, dict):
        return {key: keys(inner) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        return [keys(value[0])] if value else []
    return None


def routes() -> list[str]:
    """'METHOD /path' of each route of ours."""
    return sorted(f"{method} {route.path}" for route in every_route() for method in route.methods)


@pytest.fixture
def scored(tiny_study, store):
    from tests.conftest import scored_padim

    return {"study": tiny_study, "run": scored_padim(store, tiny_study)[0]}


@pytest.fixture
def today(scored, home, no_worker, capsys) -> dict[str, Any]:
    said = {}
    for asked in ASKED:
        words = [word.format(**scored) for word in asked.split()]
        try:
            status = main([*words, "--json", "--home", str(home.path)])
        except SystemExit as end:
            status = end.code
        out = capsys.readouterr().out.splitlines()
        try:
            answer = keys(json.loads(out[-1])) if out else None
        except ValueError:
            answer = None
        said[asked] = {"status": status, "keys": answer}
    return {
        "verbs": verbs(parser(VERBS)),
        "said": said,
        "routes": routes(),
        "benches": sorted(benches.titles()),
        "registries": {name: registry.names() for name, registry in REGISTRIES.items()},
    }


def lost(expected: Any, now: Any, path: str = "") -> list[str]:
    """Paths of what `expected` holds and `now` does not, or holds otherwise."""
    if isinstance(expected, dict):
        if not isinstance(now, dict):
            return [path]
        return [gone for key, value in expected.items() for gone in lost(value, now.get(key, "?"), f"{path}/{key}")]
    if isinstance(expected, list) and isinstance(now, list) and all(isinstance(one, str) for one in expected):
        return [f"{path}/{one}" for one in expected if one not in now]
    if isinstance(expected, list) and isinstance(now, list) and expected and now:
        return lost(expected[0], now[0], f"{path}[]")
    return [] if expected == now else [path]


@pytest.mark.slow
def test_nothing_that_users_hold_on_to_has_gone(today):
    golden = json.loads(GOLDEN.read_text())
    assert sorted(lost(golden, today)) == sorted(GONE)


def test_what_is_gone_is_found_and_what_is_new_is_not():
    assert lost({"a": ["x", "y"], "b": {"c": 2}}, {"a": ["y", "z"], "b": {"c": 3}, "d": 1}) == ["/a/x", "/b/c"]
    assert lost({"rows": [{"k": None}]}, {"rows": [{"j": None}]}) == ["/rows[]/k"]
