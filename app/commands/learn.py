"""learn RUN: learn on from a scored fit by what readers marked, and compare both on cases that it did not see."""

from __future__ import annotations

from app.commands._common import finish, follow, open_store, say, table, verb

COLUMNS = ["measure", "old", "new", "difference", "from", "to", "images"]


def add(subparsers) -> None:
    parser = verb(subparsers, "learn", "Learn from accepted lesion masks, beside the fit that there is", run)
    parser.add_argument("run_id", metavar="RUN", help="a scored fit")
    parser.add_argument("--reader", metavar="NAME", help="use this reader's masks alone")
    parser.add_argument("--background", action="store_true", help="queue it and return at once")


def run(args) -> int:
    from core.engine.tensors import pick_device
    from core.studio.runs import learnt
    from core.studio.runs import records as runs

    pick_device(args.device)
    store = open_store(args)
    made = learnt.learn(store, args.run_id, args.reader, args.device, start=args.background)
    if args.background:
        return finish(args, {**made, "status": "queued"}, f"{made['run']}: queued as job {made['job']}")
    follow(args, store, made["job"], "Learning from marks")
    found = runs.get_run(store, made["run"])["summary"]["comparison"]
    rows = []
    for name, m in found["measures"].items():
        low, high = m["interval"] or (None, None)
        kept = {k: m[k] for k in ("old", "new", "difference", "images")}
        rows.append({"measure": learnt.NAMES[name], **kept, "from": low, "to": high})
    if rows:
        say(args, table(rows, COLUMNS))
    return finish(args, {**made, **found}, f"{found['words']} Both are kept: {found['base']} and {made['run']}.")
