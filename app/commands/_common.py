"""Shared by the verbs: options, output, progress bars on a terminal, following a job."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

BY = "command line"  # the author in the audit trail


class UserError(ValueError):
    """An error described in one sentence; exit status 2, or 1 if the user did nothing wrong."""

    def __init__(self, text: str, status: int = 2):
        super().__init__(text)
        self.status = status


class _Defaults(argparse.ArgumentDefaultsHelpFormatter):
    """Help formatter that appends defaults."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        unsaid = action.default is None or action.default is False or action.default == []
        return action.help if unsaid else super()._get_help_string(action)


def verb(subparsers, name: str, help: str, run: Callable | None, **options: Any) -> argparse.ArgumentParser:
    """Adds the parser of a verb, with the options common to all: --home, --device, --json."""
    parser = subparsers.add_parser(name, help=help, description=help, formatter_class=_Defaults, **options)
    parser.add_argument("--home", metavar="DIR", help="where everything is kept (default: the user-data folder)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:i")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def verb_group(subparsers, name: str, help: str, verbs: str) -> Any:
    """Adds a verb with sub-verbs, such as `dicom serve`; returns their subparsers. verbs: names, as "add|list"."""
    parser = subparsers.add_parser(name, help=help, description=help)
    return parser.add_subparsers(dest="what", metavar=verbs, required=True)


def option_flags(parser: argparse.ArgumentParser, kind: Any, *names: str) -> None:
    """Adds a flag for each named option of a configuration class, with the type and help that the class declares."""
    from core.engine.config import options, types_of

    declared, types = options(kind), types_of(kind)
    for name in names:
        declared_option = declared[name]
        limits = [
            declared_option.label or name,
            declared_option.unit and f"in {declared_option.unit}",
            declared_option.bounds,
        ]
        words = f"{', '.join(w for w in limits if w)}. {declared_option.sentence}"
        parser.add_argument(f"--{name.replace('_', '-')}", type=types[name], help=words.replace("%", "%%"))


def open_store(args):
    """Opens the store of the chosen home."""
    from core.studio.db import opening
    from core.studio.db.home import Home

    return opening.open(Home.at(args.home))


def say(args, text: str = "") -> None:
    """Prints text for people: on stdout, or on stderr if stdout is reserved for JSON."""
    print(text, file=sys.stderr if args.json else sys.stdout, flush=True)


def finish(args, payload: dict, text: str | None = None) -> int:
    """Ends a verb successfully: prints `text` for people, or `payload` as the last line for JSON; returns 0."""
    if text:
        say(args, text)
    if args.json:
        print(json.dumps(payload, default=str), flush=True)
    return 0


def fail(args, text: str, status: int) -> int:
    """Ends a verb that failed: prints `text` and returns `status`."""
    print(f"Error: {text}" if status == 2 else text, file=sys.stderr, flush=True)
    if getattr(args, "json", False):
        print(json.dumps({"error": text}), flush=True)
    return status


def study_named(args, store, name: str) -> str:
    """Returns the id of the study with this name; the demo study is imported first if it does not exist."""
    from core.studio.demo import study as demo
    from core.studio.ingest.studies import show_study

    if name == demo.STUDY:
        demo.offer(store, args.device)
    return show_study(store, name)["id"]


@contextlib.contextmanager
def progress(args, title: str) -> Iterator[Callable[..., None]]:
    """Yields `show(done, total, note)`, which draws a bar on a terminal and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done, total, note="": None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn(),
        TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=1.0, note="")
        yield lambda done, total, note="": bar.update(task, completed=done, total=max(total, 1e-9), note=note)


def follow(args, store, job: int, title: str) -> dict:
    """Waits for a job with a bar; returns its row. Raises UserError (status 1) if it failed. Ctrl-C pauses it."""
    from core.studio.jobs import queue as jobs

    jobs.ensure_worker(store)
    with progress(args, title) as show:
        try:
            while True:
                row = jobs.get_job(store, job)
                show(row["progress"], 1.0, row["message"])
                if row["status"] not in ("queued", "running"):
                    break
                time.sleep(0.2)
                jobs.reap(store)
        except KeyboardInterrupt:
            jobs.pause(store, job)
            raise UserError(f"Paused; `jobs resume {job}` goes on", 1) from None
    if row["status"] != "done":
        reason = row["error"] or row["message"]
        advice = "" if row["status"] == "cancelled" else f"; `jobs resume {job}` goes on from its last checkpoint"
        raise UserError(f"Job {job} {row['status']}: {reason}{advice}", 1)
    return row


def options_of(pairs: list[str]) -> dict[str, Any]:
    """Parses options: ['lr=0.01', 'medmix.k=2'] -> {'lr': 0.01, 'medmix.k': 2}.

    Values are parsed as JSON, or kept as text if they are not.
    """
    options = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise UserError(f"--set takes KEY=VALUE, not {pair!r}")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    return options


def table(rows: list[dict], columns: list[str]) -> str:
    """Formats rows as text, numbers to three decimals; an interval, stored as NAME_ci, follows in brackets."""

    def text(value: Any) -> str:
        if value is None:
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float):
            return f"{value:.3f}" if abs(value) < 1000 else f"{value:.0f}"
        return str(value)

    def cell(row: dict, name: str) -> str:
        interval = row.get(f"{name}_ci")
        return text(row.get(name)) + (f" ({' to '.join(map(text, interval))})" if interval else "")

    lines = [columns, *([cell(row, c) for c in columns] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)
