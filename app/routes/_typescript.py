"""TypeScript from JSON Schema: as much of both as pydantic writes for the models of the routes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_PLAIN = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}


def type_of(schema: Mapping[str, Any], free: str = "unknown") -> str:
    """The type that a schema describes. free: the type of values of any kind."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if several := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(type_of(one, free) for one in several))
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema["enum"])
    kind = schema.get("type")
    if kind is None:
        return free
    if kind == "array":
        if "prefixItems" in schema:  # a tuple
            return f"[{', '.join(type_of(one, free) for one in schema['prefixItems'])}]"
        return f"Array<{type_of(schema['items'], free)}>"
    if kind == "object":
        return _record(schema, free)
    return _PLAIN[kind]


def _record(schema: Mapping[str, Any], free: str) -> str:
    inner = schema.get("additionalProperties")
    value = type_of(inner, free) if isinstance(inner, dict) else free
    names = schema.get("propertyNames", {})
    if "enum" in names or "$ref" in names:  # else texts of some length
        return f"Partial<Record<{type_of(names, free)}, {value}>>"
    return f"Record<string, {value}>"


def declaration(name: str, schema: Mapping[str, Any], note: str = "", free: str = "unknown") -> str:
    """`export interface NAME {...}` of an object with named properties, else `export type NAME = ...;`."""
    lines = [f"/** {' '.join(note.split())} */"] if note else []
    if "properties" not in schema:
        return "\n".join([*lines, f"export type {name} = {type_of(schema, free)};"])
    needed = schema.get("required", [])
    rows = [f"  {k}{'' if k in needed else '?'}: {type_of(v, free)};" for k, v in schema["properties"].items()]
    return "\n".join([*lines, f"export interface {name} {{", *rows, "}"])
