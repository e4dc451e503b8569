"""Functions that the verbs share: options, output, progress bars on a terminal, and following a job."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

BY = "command line"  # the author in the audit trail


class UserError(ValueError):
    """Error that ends a verb with a message and an exit status: 2 for a mistake by the user, 1 for other causes."""

    def __init__(self, text: str, status: int = 2):
        super().__init__(text)
        self.status = status


class _Defaults(argparse.ArgumentDefaultsHelpFormatter):
    """Help formatter that appends default values."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        unsaid = action.default is None or action.default is False or action.default == []
        return action.help if unsaid else super()._get_help_string(action)


Argument = Callable[[Any], object]  # adds an argument to a parser or to a group of arguments
Run = Callable[[argparse.Namespace], int]


class Verb(NamedTuple):
    """A verb (subcommand) of `launch.py`. A verb with a name of two words, such as `bin list`, belongs to a group."""

    name: str
    arguments: Sequence[Argument]
    run: Run

    def add(self, subparsers: Any, name: str) -> None:
        """Adds the verb's parser under `name`, with the options that all verbs share: --home, --device and --json."""
        help = (self.run.__doc__ or "").partition("\n")[0].rstrip(".")
        parser = subparsers.add_parser(name, help=help, description=help, formatter_class=_Defaults)
        parser.add_argument("--home", metavar="DIR", help="folder of all data (default: the user-data folder)")
        parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:i")
        parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
        for add_argument in self.arguments:
            add_argument(parser)
        parser.set_defaults(run=self.run)


VERBS: dict[str, list[Verb]] = {}  # by module
GROUPS: dict[str, str] = {}  # help of each group


def verb(name: str, *arguments: Argument) -> Callable[[Run], Run]:
    """Returns a decorator that declares a function as a verb. The first line of its docstring is the verb's help."""

    def declared(run: Run) -> Run:
        VERBS.setdefault(run.__module__, []).append(Verb(name, arguments, run))
        return run

    return declared


def verb_group(name: str, help: str) -> None:
    """Declares a group of verbs and its help text. For example, the verb `bin list` belongs to the group `bin`."""
    GROUPS[name] = help


def arg(*names: str, **options: Any) -> Argument:
    """Declares a command-line argument of a verb. The parameters are those of argparse's `add_argument`."""
    return lambda parser: parser.add_argument(*names, **options)


def one_of(*arguments: Argument, required: bool = False) -> Argument:
    """Declares mutually exclusive command-line arguments. If `required` is True, one of them must be given."""

    def add(parser: Any) -> None:
        exclusive = parser.add_mutually_exclusive_group(required=required)
        for add_argument in arguments:
            add_argument(exclusive)

    return add


def option_flags(kind: Any, *names: str) -> Argument:
    """Declares a flag for each of the options `names` of the configuration class `kind`, with its type and help."""
    from core.engine.config import options, types_of

    def add(parser: Any) -> None:
        declared, types = options(kind), types_of(kind)
        for name in names:
            option = declared[name]
            limits = [option.label or name, option.unit and f"in {option.unit}", option.bounds]
            words = f"{', '.join(w for w in limits if w)}. {option.sentence}"
            parser.add_argument(f"--{name.replace('_', '-')}", type=types[name], help=words.replace("%", "%%"))

    return add


def open_store(args):
    """Opens the store of the home given by --home."""
    from core.studio.db import opening
    from core.studio.db.home import Home

    return opening.open(Home.at(args.home))


def open_to_compute(args):
    """Opens the store for a verb that computes on --device. Raises ValueError if the device is not available."""
    if args.device not in ("auto", "cpu"):  # these are always available, and loading torch takes a second
        from core.engine.tensors import pick_device

        pick_device(args.device)
    return open_store(args)


def say(args, text: str = "") -> None:
    """Prints text for people on stdout, or on stderr with --json, which reserves stdout for JSON."""
    print(text, file=sys.stderr if args.json else sys.stdout, flush=True)


def finish(args, payload: dict, text: str | None = None) -> int:
    """Prints the result of a successful verb: `text` and, with --json, `payload` as the last line. Returns 0."""
    if text:
        say(args, text)
    if args.json:
        print(json.dumps(payload, default=str), flush=True)
    return 0


def fail(args, text: str, status: int) -> int:
    """Reports that a verb failed: prints `text` on stderr and, with --json, as JSON on stdout. Returns `status`."""
    print(f"Error: {text}" if status == 2 else text, file=sys.stderr, flush=True)
    if getattr(args, "json", False):
        print(json.dumps({"error": text}), flush=True)
    return status


def study_named(args, store, name: str) -> str:
    """Returns the id of a study, given its name. The demo study is imported first if it is requested but missing."""
    from core.studio.demo import STUDY
    from core.studio.ingest.studies import show_study

    if name == STUDY:
        from core.studio.demo import study as demo  # not at the top, because it takes half a second to load

        demo.offer(store, args.device)
    return show_study(store, name)["id"]


@contextlib.contextmanager
def progress(args, title: str) -> Iterator[Callable[..., None]]:
    """Context manager that yields `show(done, total, note)`. It updates a progress bar if stderr is a terminal."""
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


def follow(args, store, job: int, title: str, until: str = "", work: Callable[..., None] | None = None) -> dict:
    """Shows a progress bar until a job has ended or its step `until` has begun. Returns the job's row.

    work: Function to call in this process before waiting. Its argument is the `show` of `progress`.
    Raises UserError with status 1 if the job fails, or if Ctrl-C pauses the job.
    """
    from core.studio.jobs import queue as jobs

    jobs.ensure_worker(store)
    with progress(args, title) as show:
        try:
            if work is not None:
                work(show)
            while True:
                row = jobs.get_job(store, job)
                show(row["progress"], 1.0, row["message"])
                if row["status"] not in ("queued", "running"):
                    break
                if row["step"] == until:
                    return row
                time.sleep(0.2)
                jobs.reap(store)
        except KeyboardInterrupt:
            jobs.pause(store, job)
            raise UserError(f"Paused; `jobs resume {job}` continues", 1) from None
    if row["status"] != "done":
        reason = row["error"] or row["message"]
        advice = "" if row["status"] == "cancelled" else f"; `jobs resume {job}` continues from its last checkpoint"
        raise UserError(f"Job {job} {row['status']}: {reason}{advice}", 1)
    return row


def options_of(pairs: list[str]) -> dict[str, Any]:
    """Parses options: ['lr=0.01', 'medmix.k=2'] becomes {'lr': 0.01, 'medmix.k': 2}.

    Values are parsed as JSON. A value that is not JSON stays a string. Raises UserError if a key or "=" is missing.
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
    """Formats rows as a text table, with three decimals. The interval in NAME_ci is shown in brackets after NAME."""

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
