"""Random requests to every route of openapi.json and to Gradio's functions, parameters of both studies mixed."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any
from urllib.parse import urlencode

from core.studio.review.worklist import _ASKED, DECISION_FILTERS, LABELS, SORTS, Query

WORDS = ["", "normal", "abnormal", "unsure", "x", "a", "0", "1", "all", "test", "name", "polyp", "odd", "png", "csv"]
LIST_WORDS: dict[str, list] = {  # of the worklist's filters, which openapi.json does not list
    "sort": [*SORTS], "decision": [*DECISION_FILTERS], "label": [*LABELS],
    "tag": ["odd", "kind 1", "kind 2"], "text": ["o", "t0", "a", "other", ".png"],
    **{name: [*words] for name, (_, words) in _ASKED.items()},
}  # fmt: skip
assert {"sort", "splits", "tag", "label", "text"} <= {f.name for f in dataclasses.fields(Query)}
HEADERS = [  # that ask of an answer that it be another one
    {"Range": "bytes=0-9"}, {"Range": "bytes=-5,1-"}, {"If-Modified-Since": "Tue, 01 Jan 2030 00:00:00 GMT"},
    {"If-Match": "*"}, {"Accept": "text/html"}, {"Accept-Encoding": "gzip, br"}, {"X-HTTP-Method-Override": "GET"},
    {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}, {"Prefer": "wait=1"},
]  # fmt: skip
HARVESTED = {"id", "case", "run", "mask", "session", "finding", "key", "token", "drop", "task", "job", "cursor", "v"}


class Values:
    """What parameters may be: known of the homes, and noted from answers. draw: of a strategy."""

    def __init__(self, pools: dict[str, list], schemas: dict[str, Any]):
        self.pools, self.schemas = {k: list(v) for k, v in pools.items()}, schemas

    def note(self, answer: Any, key: str = "") -> None:
        """Keep the numbers and texts of an answer by their key, for later requests."""
        if isinstance(answer, dict):
            for name, value in answer.items():
                self.note(value, name)
        elif isinstance(answer, list) and key != "cursor":
            for value in answer[:50]:
                self.note(value, key)
        elif key in HARVESTED and answer is not None:
            pool = self.pools.setdefault(key, [])
            value = json.dumps(answer) if isinstance(answer, list) else answer
            if value not in pool:
                pool.append(value)
                del pool[:-40]

    def of(self, pick, name: str, schema: dict) -> Any:
        """A value of a parameter, or of a body's field."""
        if "$ref" in schema:
            schema = self.schemas[schema["$ref"].rsplit("/", 1)[1]]
        if "anyOf" in schema:
            return self.of(pick, name, pick(schema["anyOf"]))
        kind = schema.get("type")
        short = {"case_id": "case", "run_id": "run", "mask_id": "id", "back": "flag", "at": "count"}.get(name, name)
        pool = self.pools.get(short) or self.pools.get(name)
        if name in LIST_WORDS and kind in (None, "string"):
            pool = LIST_WORDS[name]
        if kind == "array":
            if name == "clicks":
                return [[20.0, 20.0, True]]
            item = schema.get("items", {})
            return [self.of(pick, {"cases": "case"}.get(name, name), item) for _ in range(pick([1, 1, 2, 4]))]
        if "enum" in schema:
            return pick(schema["enum"])
        if kind == "object" or "properties" in schema:
            if not schema.get("properties"):
                return self.scene(pick) if name == "scene" else self.settings(pick)
            needed = set(schema.get("required", ()))
            return {
                field: self.of(pick, field, about)
                for field, about in schema["properties"].items()
                if field in needed or pick([True, False])
            }
        if pool and pick([True] * 9 + [False]):
            value = pick(pool)
            if kind not in ("integer", "number") or not isinstance(value, str):
                return value
        if kind == "boolean":
            return pick([True, False])
        if kind in ("integer", "number"):
            return pick([0, 1, 2, 3, 7, 20, -1, 10**6, 0.5 if kind == "number" else 5])
        if kind == "null":
            return None
        return pick(WORDS)

    def scene(self, pick) -> dict:
        """Of MedMix's tab: its own study, and another one that lesions are cut from."""
        config = {"k": 1, "donor": pick(["other", "foreign"]), "donor_study": pick(self.pools["study"])}
        scene = {
            "study": pick(self.pools["study"]),
            "seed": pick([0, 1]),
            "samples": pick([1, 2]),
            "first": pick([0, 9]),
        }
        return {**scene, "size": pick([64, 65]), "weak": pick([True, False]), "config": pick([{}, config, config])}

    def settings(self, pick) -> dict:
        """Of a worklist: what a body's `list` holds."""
        found: dict[str, Any] = {"study": pick(self.pools["study"]), "run": pick(self.pools["run"])}
        for name in pick([[], ["sort"], ["sort", "decision"], ["flagged", "text"], ["label", "tag", "split"]]):
            found[name] = pick(LIST_WORDS[name])
        return {k: v for k, v in found.items() if pick([True, True, True, False])}


def draw_request(pick, values: Values, row: str, operation: dict, body_bytes: bytes) -> tuple[str, str, dict]:
    """(method, address with its query, what `Client.request` is given) of one operation of openapi.json."""
    method, path = row.split(" ")
    query: dict[str, Any] = {}
    filled = path
    for parameter in operation.get("parameters", ()):
        name, schema = parameter["name"], parameter.get("schema", {})
        if parameter["in"] == "path":
            filled = filled.replace(f"{{{name}}}", str(values.of(pick, name, schema)) or "x")
        elif parameter["in"] == "query" and (parameter.get("required") or pick([True, True, False])):
            value = values.of(pick, name, schema)
            if value is not None:
                query[name] = value
    filled = re.sub(r"\{\w+\}", "x", filled)
    if path.startswith("/api/review/") and method == "GET":
        for name in LIST_WORDS:
            if pick([True, False, False, False]):
                query[name] = pick(LIST_WORDS[name])
    if "/case/" in path and pick([True, False, False]):
        query["v"] = pick(values.pools.get("v") or ["x"])
    given: dict[str, Any] = {}
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if schema is not None:
        given["json"] = values.of(pick, "", schema)
    elif method in ("POST", "PUT"):
        given["content"] = pick([body_bytes, body_bytes, b"", b"draft"])
    if pick([True] + [False] * 7):
        given["headers"] = pick([{"If-None-Match": tag} for tag in values.pools.get("etag") or ['"x"']] + HEADERS)
    if pick([True] + [False] * 24):
        method = pick(["HEAD", "OPTIONS", "GET", "POST"])
    address = f"{filled}?{urlencode(query)}" if query else filled
    return method, address, given
