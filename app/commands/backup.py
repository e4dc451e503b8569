"""backup: a verified copy of the database, made while people work; or the list of those there are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from app.commands._common import UserError, finish, open_store, table, verb


def add(subparsers) -> None:
    parser = verb(subparsers, "backup", "Copy the database while people work, and read the copy back", run)
    parser.add_argument("--to", metavar="DIR", help="where to (default: backups/ in the home; better another disk)")
    parser.add_argument("--keep", type=int, default=14, help="how many are kept, the newest")
    parser.add_argument("--list", action="store_true", help="say which there are, and make none")


def run(args) -> int:
    from core.studio.db import backup

    if args.keep < 1:
        raise UserError("--keep is at least 1")
    home = open_store(args).home
    folder = Path(args.to).expanduser().absolute() if args.to else home.backups
    if args.list:
        found = [asdict(one) for one in backup.backups(folder)]
        text = table(found, ["file", "created", "bytes", "events"]) if found else f"There are none in {folder}"
        return finish(args, {"folder": str(folder), "backups": found}, text)
    made = backup.backup(home, folder, args.keep)
    text = f"{folder / made.file}: {made.bytes / 2**20:.1f} MiB, {made.events} events, read back and sound"
    return finish(args, {"folder": str(folder), **asdict(made)}, text)
