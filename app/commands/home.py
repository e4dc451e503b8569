"""Verbs that maintain a home: setup, doctor, jobs, bin, erase, reader, backup, restore."""

from __future__ import annotations

import getpass
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.commands._common import BY, UserError, arg, finish, follow, open_store, say, table, verb, verb_group


@verb("setup", arg("--imagenet", action="store_true", help="also download torchvision's ImageNet weights"))
def run_setup(args) -> int:
    """Prepare the environment and the home, and list what they contain."""
    from core.engine.tensors import pick_device
    from core.studio.db import opening
    from core.studio.db.home import Home
    from core.studio.runs.records import package_versions

    home = Home.at(args.home)
    opening.open(home)
    device = str(pick_device(args.device))
    payload: dict[str, Any] = {
        "python": sys.executable,
        "home": str(home.path),
        "device": device,
        "packages": package_versions(),
    }
    if args.imagenet:
        from core.engine.backbones.config import EncoderConfig
        from core.engine.backbones.encoder import build_encoder

        build_encoder(EncoderConfig(init="imagenet"))
        payload["imagenet"] = True
    for key, value in payload.items():
        say(args, f"{key}: {', '.join(f'{k} {v}' for k, v in value.items()) if isinstance(value, dict) else value}")
    return finish(args, payload)


@verb("doctor")
def run_doctor(args) -> int:
    """Check the installation, the database, the images and the audit trail."""
    from core.studio.doctor.checks import examine

    findings = examine(open_store(args), args.device)
    marks = {"ok": "  ok  ", "note": " note ", "bad": " BAD  "}
    for finding in findings:
        say(args, f"{marks[finding['level']]} {finding['title']}: {finding['text']}")
    bad = sum(finding["level"] == "bad" for finding in findings)
    finish(args, {"well": not bad, "findings": findings}, "All is well" if not bad else f"{bad} things need attention")
    return 1 if bad else 0


@verb(
    "jobs",
    arg("what", nargs="?", default="list", choices=("list", "pause", "resume", "cancel", "follow", "stop")),
    arg("job", nargs="?", type=int),
)
def run_jobs(args) -> int:
    """List the jobs, or pause, resume, cancel or follow one of them; `stop` pauses all jobs."""
    from core.studio.jobs import queue as jobs

    store = open_store(args)
    if args.what == "list":
        rows = jobs.list_jobs(store)
        training = next((r["id"] for r in rows if r["status"] == "running" and r["queue"] == "long"), None)
        for row in rows:
            steps = " > ".join(("*" if i == row["position"] else "") + s["step"] for i, s in enumerate(row["chain"]))
            is_parallel = training and row["status"] == "running" and row["queue"] == "short"
            message = row["message"] + (f" (alongside job {training})" if is_parallel else "")
            say(args, f"{row['id']:4}  {row['status']:11} {row['progress']:4.0%}  {steps}  {message}")
        return finish(args, {"jobs": [as_json(r) for r in rows]}, None if rows else "No jobs yet")
    if args.what == "stop":
        from core.studio.jobs import stopping

        paused = stopping.pause(store)
        return finish(args, {"paused": paused}, stopping.sentence(store, paused) or "No job is running")
    if args.job is None:
        raise ValueError(f"jobs {args.what} needs the number of a job")
    if args.what == "follow":
        follow(args, store, args.job, f"Job {args.job}")
    else:
        {"pause": jobs.pause, "resume": jobs.resume, "cancel": jobs.cancel}[args.what](store, args.job)
    row = jobs.get_job(store, args.job)
    request = f" (asked to {row['wants']})" if row["wants"] != "run" and row["status"] == "running" else ""
    return finish(args, as_json(row), f"Job {args.job}: {row['status']}{request}")


def as_json(row: dict) -> dict:
    """Returns a job's row for --json, in which `step` and `queue` are called `verb` and `lane`, as in version 0.1."""
    other = {k: v for k, v in row.items() if k not in ("step", "queue", "chain")}
    chain = [{"verb": step["step"], "run": step["run"], "args": step["args"]} for step in row["chain"]]
    return {**other, "verb": row["step"], "lane": row["queue"], "chain": chain}


verb_group("bin", "Removed runs and studies: list them, restore one, or delete them permanently")


@verb("bin list")
def run_bin_list(args) -> int:
    """List the runs and studies in the bin."""
    from core.studio.runs import bin

    rows = bin.contents(open_store(args))
    text = table(rows, ["kind", "id", "name", "study", "until"]) if rows else "The bin is empty"
    return finish(args, {"bin": rows}, text)


@verb("bin restore", arg("kind", choices=("run", "study")), arg("id"))
def run_bin_restore(args) -> int:
    """Restore a run with its fits, or a study, from the bin."""
    from core.studio.runs import bin

    bin.restore(open_store(args), args.kind, args.id, BY)
    return finish(args, {"restored": args.id}, f"{args.kind} {args.id} is restored")


@verb("bin empty")
def run_bin_empty(args) -> int:
    """Empty the bin permanently, except for studies in which readers have worked."""
    from core.studio.runs import bin

    count = bin.empty(open_store(args), days=0)
    return finish(args, {"deleted": count}, f"{count} deleted permanently")


@verb(
    "erase",
    arg("patient", nargs="?", default="", help="patient's identifier at import, from the table, file names or DICOM"),
    arg("--case", type=int, metavar="N", help="number of one of the patient's cases, instead of the identifier"),
    arg("--yes", action="store_true", help="erase the data instead of only listing it"),
)
def run_erase(args) -> int:
    """List a patient's data, or delete it and mark the runs trained on it."""
    from core.studio.review import erasing

    store = open_store(args)
    for problem in erasing.go_on(store):
        say(args, problem)
    cases = erasing.cases_of(store, args.patient, args.case)
    traced = erasing.trace(store, cases, args.patient)
    for line in erasing.words(traced):
        say(args, line)
    if not args.yes:
        return finish(args, {"trace": traced.to_dict(), "erased": False}, "Nothing was erased; add --yes to do it")
    result = erasing.erase(store, cases, BY, args.patient)
    for problem in result["open"]:
        say(args, problem)
    text = (
        f"Erased. The patient is still named in: {', '.join(result['still'])}"
        if result["still"]
        else "Erased; no file of this home names the patient"
    )
    return finish(args, {"erased": True, **result}, text)


verb_group("reader", "Accounts of readers")


@verb(
    "reader add",
    arg("name"),
    arg("--role", default="reader", help="reader, adjudicator or administrator"),
    arg("--password-stdin", action="store_true", help="read the password from standard input"),
)
def run_reader_add(args) -> int:
    """Create an account, or give one a new password and role."""
    from core.studio.review import people

    if args.password_stdin:
        password = sys.stdin.readline().rstrip("\n")
    elif sys.stdin.isatty():
        password = getpass.getpass(f"Password for {args.name}: ")
        if getpass.getpass("Repeat the password: ") != password:
            raise UserError("the two passwords differ; try again")
    else:
        raise UserError("there is no terminal to ask for the password; pipe the password in with --password-stdin")
    people.keep_account(open_store(args), args.name, password, args.role, BY)
    return finish(args, {"name": args.name, "role": args.role}, f"{args.name} can sign in as {args.role}")


@verb("reader list")
def run_reader_list(args) -> int:
    """List the accounts."""
    from core.studio.review import people

    rows = people.list_readers(open_store(args))
    for row in rows:
        say(args, f"{row['name']}  {row['role']}{'' if row['active'] else '  (removed)'}")
    return finish(args, {"readers": rows}, None if rows else "No accounts yet; `reader add NAME` creates one")


@verb("reader remove", arg("name"))
def run_reader_remove(args) -> int:
    """Remove an account; its reviews are kept."""
    from core.studio.review import people

    people.remove_account(open_store(args), args.name, BY)
    return finish(args, {"name": args.name, "removed": True}, f"{args.name} can no longer sign in")


@verb(
    "backup",
    arg("--to", metavar="DIR", help="folder (default: backups/ in the home; another disk is safer)"),
    arg("--keep", type=int, default=14, help="number of newest backups to keep"),
    arg("--list", action="store_true", help="list the backups instead of making one"),
)
def run_backup(args) -> int:
    """Back up the database, even while it is in use, and check the copy."""
    from core.studio.db import backup

    if args.keep < 1:
        raise UserError("--keep must be at least 1")
    home = open_store(args).home
    folder = Path(args.to).expanduser().absolute() if args.to else home.backups
    if args.list:
        rows = [asdict(file) for file in backup.backups(folder)]
        text = table(rows, ["file", "created", "bytes", "events"]) if rows else f"There are no backups in {folder}"
        return finish(args, {"folder": str(folder), "backups": rows}, text)
    backed = backup.backup(home, folder, args.keep)
    text = f"{folder / backed.file}: {backed.bytes / 2**20:.1f} MiB, {backed.events} events, checked"
    return finish(args, {"folder": str(folder), **asdict(backed)}, text)


@verb("restore", arg("file", metavar="FILE", help="a backup's file, its name in the home's backups, or 'latest'"))
def run_restore(args) -> int:
    """Replace the database with a backup; the old database is kept."""
    from core.studio.db import backup
    from core.studio.db.home import Home
    from core.studio.review import erasing

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
    for problem in erasing.go_on(open_store(args)):  # a patient who was erased after the backup stays erased
        say(args, problem)
    ending = f"; the previous database is kept as {aside}" if aside else ""
    return finish(args, {"restored": str(file), "kept": aside and str(aside)}, f"{file.name} is restored{ending}")
