"""The types of the routes' answers as TypeScript: app/static/answers.d.ts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import TypeAdapter

from app.routes._answers import ANSWERS, BINARY, HEADS
from app.routes._typescript import declaration, type_of

TOP = """// Made by `python -m app.routes.schema --write` from app/routes/_answers.
// What the routes answer, and an overload of api.js's functions for each: the path says which answer comes.
import type { Answer, Params } from './types';
"""
BETWEEN = """
type Query = '' | `?${string}`;
type To<T> = Promise<T & { ok: true }>;"""
# interface of app/static/types.d.ts: what it is said of, then (method, what comes after the path)
CALLS = {
    "Api": (
        "Throws an Error whose message is a sentence for the reader.",
        {
            "GET": "",
            "POST": "body: object",
            "PUT": "body: undefined, options: RequestInit & { method: 'PUT' }",
            "DELETE": "body: undefined, options: { method: 'DELETE' }",
        },
    ),
    "Get": ("", {"GET": "params?: Params"}),
    "Post": ("", {"POST": "body?: Params"}),
    "PostBytes": ("", {"POST": "params: Params, content: Uint8Array"}),
    "Discard": ("", {"DELETE": ""}),
}
REST = "(path: string, body?: unknown, options?: RequestInit): Promise<any>"  # of a path that no type is known of


def page() -> str:
    """The whole file."""
    validated: Literal["validation"] = "validation"
    named = [(route, validated, TypeAdapter(model)) for route, model in (ANSWERS | HEADS).items()]
    schemas, found = TypeAdapter.json_schemas(named)
    definitions = found["$defs"]
    models = {route: type_of(schema) for (route, _), schema in schemas.items()}
    parts = [
        declaration(name, schema, schema.get("description", ""), free="any")
        for name, schema in sorted(definitions.items())
    ]
    binary = [f"//   {route}: {', '.join(types)}" for route, types in sorted(BINARY.items(), key=_by_path)]
    heads = [f"//   {route}: {models[route]}" for route in HEADS]
    calls = [_calls(name, about, kinds, models) for name, (about, kinds) in CALLS.items()]
    return "\n".join([
        TOP, *parts, BETWEEN, *calls, "", "// No JSON:", *binary,
        "// Of these, with a head in JSON (its length first, a little-endian uint32):", *heads, "",
    ])  # fmt: skip


def _by_path(row: tuple[str, Any]) -> list[str]:
    return row[0].split(" ")[::-1]


def _calls(name: str, about: str, kinds: dict[str, str], models: dict[str, str]) -> str:
    """The interface of one function: an overload a route, those with more fixed words in their paths first."""
    rows = list(_overloads(name, kinds, models))
    if name == "Api":
        rows.append(f"  {REST};")
    return "\n".join([*([f"/** {about} */"] if about else []), f"export interface {name} {{", *rows, "}"])


def _overloads(name: str, kinds: dict[str, str], models: dict[str, str]) -> Iterator[str]:
    routes = [route.split(" ") for route in ANSWERS if route.split(" ")[0] in kinds]
    for method, path in sorted(routes, key=lambda r: (-len(re.sub(r"\{\w+\}", "", r[1])), r[1], r[0])):
        pattern = re.sub(r"\{\w+\}", "${string}", path) + ("${Query}" if name == "Api" else "")
        given = ", ".join(filter(None, [f"path: `{pattern}`", kinds[method]]))
        answer = models[f"{method} {path}"]
        yield f"  ({given}): {'To' if name == 'Api' else 'Promise<Answer'}<{answer}>{'' if name == 'Api' else '>'};"
