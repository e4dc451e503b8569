"""python -m app.routes.schema: what each route takes as its body, as TypeScript (--json: as JSON Schema).

Made from the models of _bodies.py, for the type checker of the page's scripts.
"""

from __future__ import annotations

import argparse
import inspect
import json
from typing import Any

from app.context import Context
from app.routes import _bodies as bodies
from app.routes import router_modules

HEAD = "// Made by `python -m app.routes.schema` from app/routes/_bodies.py. What the page sends, by method and path."


def models() -> list[type[bodies.Body]]:
    """The models of bodies, in the order in which they stand in the file."""
    kinds = [kind for _, kind in inspect.getmembers(bodies, inspect.isclass) if issubclass(kind, bodies.Body)]
    return sorted((kind for kind in kinds if kind is not bodies.Body), key=lambda k: inspect.getsourcelines(k)[1])


def body_of_routes(ctx: Context) -> dict[str, type[bodies.Body]]:
    """{"POST /api/...": model} of each route with a body that is JSON."""
    found = {}
    for module in router_modules():
        for route in module.routes(ctx).routes:
            for parameter in inspect.signature(route.endpoint, eval_str=True).parameters.values():
                if inspect.isclass(parameter.annotation) and issubclass(parameter.annotation, bodies.Body):
                    found[f"{min(route.methods)} {route.path}"] = parameter.annotation
    return dict(sorted(found.items(), key=lambda row: row[0].split(" ")[::-1]))


def typescript(schema: dict[str, Any]) -> str:
    """The type that a JSON Schema describes; only what pydantic writes for _bodies.py is known."""
    if "anyOf" in schema:
        return " | ".join(typescript(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema["enum"])
    kind = schema["type"]
    if kind == "array":
        if "prefixItems" in schema:  # a tuple
            return f"[{', '.join(map(typescript, schema['prefixItems']))}]"
        return f"Array<{typescript(schema['items'])}>"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"Record<string, {typescript(inner) if isinstance(inner, dict) else 'unknown'}>"
    return {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}[kind]


def interface(model: type[bodies.Body]) -> str:
    schema = model.model_json_schema()
    needed = schema.get("required", [])
    rows = [f"  {k}{'' if k in needed else '?'}: {typescript(v)};" for k, v in schema["properties"].items()]
    note = inspect.cleandoc(model.__doc__) if model.__doc__ and model.__doc__ != bodies.Body.__doc__ else ""
    lines = [f"/** {' '.join(note.split())} */"] if note else []
    return "\n".join([*lines, f"export interface {model.__name__} {{", *rows, "}"])


def page(ctx: Context) -> str:
    """The whole file."""
    table = [f"  '{route}': {model.__name__};" for route, model in body_of_routes(ctx).items()]
    interfaces = [interface(model) for model in models()]
    return "\n".join([HEAD, "", *interfaces, "", "export interface Bodies {", *table, "}", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON Schema of each route's body")
    args = parser.parse_args()
    import tempfile

    from core.studio.db.home import Home

    with tempfile.TemporaryDirectory() as folder:  # the routes are made, and never asked
        ctx = Context(home=Home.at(folder))
        if args.json:
            print(json.dumps({k: m.model_json_schema() for k, m in body_of_routes(ctx).items()}, indent=1))
        else:
            print(page(ctx), end="")


if __name__ == "__main__":
    main()
