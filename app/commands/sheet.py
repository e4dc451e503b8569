"""sheet RUN: best and worst cases of a scored run by Dice, as one picture."""

from __future__ import annotations

from pathlib import Path

from app.commands._common import UserError, finish, open_store, verb


def add(subparsers) -> None:
    parser = verb(subparsers, "sheet", "Best and worst cases of a scored run by Dice, as one picture", run)
    parser.add_argument("run_id", metavar="RUN")
    parser.add_argument(
        "--out", metavar="FILE", help="PNG, JPEG, SVG or PDF (default: sheets/RUN.png in the home folder)"
    )
    parser.add_argument("--best", type=int, default=12)
    parser.add_argument("--worst", type=int, default=12)


def run(args) -> int:
    from core.studio.runs import records as runs
    from core.studio.runs.sheet import draw_sheet

    store = open_store(args)
    if "threshold" not in runs.get_run(store, args.run_id)["summary"]:
        raise UserError(f"{args.run_id} has not been scored; `score {args.run_id}` does it")
    out = Path(args.out) if args.out else store.home.path / "sheets" / f"{args.run_id}.png"
    payload = draw_sheet(store, args.run_id, out, args.best, args.worst)
    return finish(args, payload, f"Written: {payload['out']}")
