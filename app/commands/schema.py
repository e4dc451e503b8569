"""schema: the tables of the database as a page, made from the migrations."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from app.commands._common import finish, say, verb


def add(subparsers) -> None:
    parser = verb(subparsers, "schema", "Print the database's tables, made from the migrations, as Markdown", run)
    parser.add_argument("--out", metavar="FILE", help="write the page here instead of printing it")


def run(args) -> int:
    from core.studio.db import schema

    page = schema.markdown()
    if args.out:
        Path(args.out).write_text(page + "\n", encoding="utf-8")
        say(args, f"{args.out} is written")
    elif not args.json:
        print(page)
    return finish(args, {"tables": [dataclasses.asdict(table) for table in schema.tables()]})
