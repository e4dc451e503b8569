"""python -m app.routes.schema: what each route takes as its body, as TypeScript (--json: as JSON Schema).

With --write: the types of what the routes answer, into app/static/answers.d.ts, for the type checker of the page's
scripts. Made from the models of _bodies and _answers.
"""

from __future__ import annotations

import argparse
import inspect
import json

from app.context import APP, Context
from app.routes import _bodies as bodies
from app.routes import router_modules
from app.routes._typescript import declaration

ANSWERS = APP / "static" / "answers.d.ts"
HEAD = "// Made by `python -m app.routes.schema` from app/routes/_bodies. What the page sends, by method and path."


def models() -> list[type[bodies.Body]]:
    """The models of bodies, in the order in which the package names them."""
    return [getattr(bodies, name) for name in bodies.__all__ if name != bodies.Body.__name__]


def body_of_routes(ctx: Context) -> dict[str, type[bodies.Body]]:
    """{"POST /api/...": model} of each route with a body that is JSON."""
    found = {}
    for module in router_modules():
        for route in module.routes(ctx).routes:
            for parameter in inspect.signature(route.endpoint, eval_str=True).parameters.values():
                if inspect.isclass(parameter.annotation) and issubclass(parameter.annotation, bodies.Body):
                    found[f"{min(route.methods)} {route.path}"] = parameter.annotation
    return dict(sorted(found.items(), key=lambda row: row[0].split(" ")[::-1]))


def interface(model: type[bodies.Body]) -> str:
    """The model as TypeScript, with what its docstring says."""
    note = inspect.cleandoc(model.__doc__) if model.__doc__ and model.__doc__ != bodies.Body.__doc__ else ""
    return declaration(model.__name__, model.model_json_schema(), note)


def page(ctx: Context) -> str:
    """The whole file."""
    table = [f"  '{route}': {model.__name__};" for route, model in body_of_routes(ctx).items()]
    interfaces = [interface(model) for model in models()]
    return "\n".join([HEAD, "", *interfaces, "", "export interface Bodies {", *table, "}", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON Schema of each route's body")
    parser.add_argument("--write", action="store_true", help=f"write {ANSWERS.name}, the types of the answers")
    args = parser.parse_args()
    if args.write:
        from app.routes._answers import typescript  # here: the server imports this module and needs no answer's model

        ANSWERS.write_text(typescript.page(), encoding="utf-8")
        return
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
