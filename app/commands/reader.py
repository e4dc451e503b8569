"""reader add|list|remove: the accounts of those who sign in with `app --readers`."""

from __future__ import annotations

import getpass
import sys

from app.commands._common import BY, UserError, finish, open_store, say, verb


def add(subparsers) -> None:
    parser = verb(subparsers, "reader", "Accounts of readers who sign in", None)
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    made = verb(actions, "add", "Make an account, or give one a new password and role", run_add)
    made.add_argument("name")
    made.add_argument("--role", default="reader", help="reader, adjudicator or administrator")
    made.add_argument("--password-stdin", action="store_true", help="read the password from standard input")
    verb(actions, "list", "Show the accounts", run_list)
    gone = verb(actions, "remove", "Nobody signs in by this account any more; its reviews stay", run_remove)
    gone.add_argument("name")


def run_add(args) -> int:
    from core.studio.review import people

    if args.password_stdin:
        password = sys.stdin.readline().rstrip("\n")
    elif sys.stdin.isatty():
        password = getpass.getpass(f"Password for {args.name}: ")
        if getpass.getpass("Once more: ") != password:
            raise UserError("the two passwords differ; try again")
    else:
        raise UserError("there is no terminal to ask for a password; pipe it in with --password-stdin")
    people.keep(open_store(args), args.name, password, args.role, BY)
    return finish(args, {"name": args.name, "role": args.role}, f"{args.name} can sign in as {args.role}")


def run_list(args) -> int:
    from core.studio.review import accounts

    rows = accounts.list_readers(open_store(args))
    for row in rows:
        say(args, f"{row['name']}  {row['role']}{'' if row['active'] else '  (removed)'}")
    return finish(args, {"readers": rows}, None if rows else "No accounts yet: reader add NAME makes one")


def run_remove(args) -> int:
    from core.studio.review import people

    people.remove(open_store(args), args.name, BY)
    return finish(args, {"name": args.name, "removed": True}, f"{args.name} can no longer sign in")
