"""restore: a backup in the place of the database, which is kept aside."""

from __future__ import annotations

from pathlib import Path

from app.commands._common import UserError, finish, verb


def add(subparsers) -> None:
    parser = verb(subparsers, "restore", "Put a backup in the place of the database, which is kept aside", run)
    parser.add_argument("file", metavar="FILE", help="a backup's file, its name in the home's backups, or 'latest'")


def run(args) -> int:
    from core.studio.db import backup
    from core.studio.db.home import Home

    home = Home.at(args.home)
    if args.file == "latest":
        regular = [b for b in backup.backups(home.backups) if b.file.startswith(backup.REGULAR)]
        if not regular:
            raise UserError(f"there is no backup in {home.backups}")
        file = home.backups / regular[0].file
    else:
        file = Path(args.file).expanduser().absolute()
        file = file if file.exists() else home.backups / args.file
    aside = backup.restore(home, file)
    kept = f"; what was there is kept as {aside}" if aside else ""
    return finish(args, {"restored": str(file), "kept": aside and str(aside)}, f"{file.name} is restored{kept}")
