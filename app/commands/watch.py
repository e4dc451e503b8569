"""watch [STUDY [FOLDER]]: import the files dropped into a folder into a study, and score them."""

from __future__ import annotations

import time

from app.commands._common import UserError, finish, follow, open_store, say, verb


def add(subparsers) -> None:
    parser = verb(subparsers, "watch", "Watch a folder: what is dropped into it is imported, scored and shown", run)
    parser.add_argument(
        "study", nargs="?", help="its folder is set, shown or switched; all that are watched if left out"
    )
    parser.add_argument("folder", nargs="?", help="the folder to watch from now on")
    parser.add_argument(
        "--run", metavar="RUN", dest="run_id", help="the fit that scores; else the one Review opens with"
    )
    parser.add_argument("--copy", action="store_true", help="copy the files into the home instead of referring to them")
    parser.add_argument("--off", action="store_true", help="watch this study's folder no longer")
    parser.add_argument("--once", action="store_true", help="import the files that are there now, then end")


def run(args) -> int:
    from core.studio.incoming import watch
    from core.studio.jobs import queue as jobs

    store = open_store(args)
    if args.study:
        _set(args, store)
    if args.off:
        return finish(args, watch.shown(store, args.study), f"{args.study}: watched no longer")
    rows = watch.watched(store)
    if not rows:
        raise UserError("no folder is watched yet: watch STUDY FOLDER begins")
    for row in rows:
        say(args, f"{row['study']}: watching {row['folder']}")
    printed = {} if args.once else watch.ended(store)
    if args.once:
        watch.look(store)
        time.sleep(watch.SETTLE)
        for job in watch.look(store):
            follow(args, store, job, "Taking new cases")
        _print_ended(args, store, printed)
        found = [watch.shown(store, row["study"]) for row in rows]
        for one in found:
            say(args, f"{one['study']}: {one['message'] or 'nothing new'}")
        return finish(args, {"watched": found})
    say(args, "Press Ctrl-C to end it; the app watches too while it is open")
    with watch.Lookout(store):
        while True:
            time.sleep(1)
            jobs.reap(store)
            printed = _print_ended(args, store, printed)


def _set(args, store) -> None:
    from core.studio.incoming import watch

    before = watch.get_watch(store, args.study)
    folder = args.folder or (before or {}).get("folder")
    if folder is None:
        raise UserError(f"no folder is watched for {args.study} yet: watch {args.study} FOLDER begins")
    run_id = args.run_id or (before or {}).get("run")
    copy = args.copy or bool((before or {}).get("copy"))
    watch.set_watch(store, args.study, folder, "command line", run_id, not args.off, copy)


def _print_ended(args, store, printed: dict[tuple, str]) -> dict[tuple, str]:
    """One line for each file that has come to an end since."""
    from core.studio.incoming import watch

    found = watch.ended(store)
    for (study, path), what in found.items():
        if printed.get((study, path)) != what:
            say(args, f"{study}: {path}: {what}")
    return found
