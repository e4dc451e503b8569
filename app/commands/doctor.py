"""doctor: is this installation well?"""

from __future__ import annotations

from app.commands._common import finish, open_store, say, verb


def add(subparsers) -> None:
    verb(subparsers, "doctor", "Check the installation, the database, the images and the audit trail", run)


def run(args) -> int:
    from core.studio.doctor.checks import examine

    found = examine(open_store(args), args.device)
    marks = {"ok": "  ok  ", "note": " note ", "bad": " BAD  "}
    for one in found:
        say(args, f"{marks[one['level']]} {one['title']}: {one['text']}")
    bad = sum(one["level"] == "bad" for one in found)
    finish(args, {"well": not bad, "findings": found}, "All is well" if not bad else f"{bad} things need attention")
    return 1 if bad else 0
