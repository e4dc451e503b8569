"""Reader trials: trial plan|sizes|start|status|close|report."""

from __future__ import annotations

from pathlib import Path

from app.commands._common import BY, finish, open_store, option_flags, options_of, study_named, table, verb

FLAGS = ("design", "cases", "normal", "abnormal", "seed", "washout", "repeats", "scale", "rule", "reference")


def add(subparsers) -> None:
    from core.studio.trials.options import TrialPlan

    parser = subparsers.add_parser(
        "trial", help="Reader trials: does the machine help these readers, whom does it harm"
    )
    inner = parser.add_subparsers(dest="what", metavar="plan|sizes|start|status|close|report", required=True)
    planning = verb(inner, "plan", "Plan a trial, or change a plan on which nobody has decided yet", run_plan)
    planning.add_argument("name")
    planning.add_argument("--study", required=True)
    planning.add_argument("--readers", required=True, metavar="A,B,C", help="accounts of plain readers")
    planning.add_argument("--run", default="", dest="of_run", metavar="RUN", help="whose readings the aided arm shows")
    planning.add_argument("--panel", default="", metavar="D,E", help="who sits on the panel, for --reference panel")
    planning.add_argument("--marks", action="store_true", help="readers mark the place of each lesion")
    planning.add_argument("--in-place-of", type=int, metavar="TRIAL", help="the trial whose plan is changed")
    planning.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any other option of the plan"
    )
    option_flags(planning, TrialPlan, *FLAGS)
    sizes = verb(inner, "sizes", "The chance that so many readers and cases find a difference of areas", run_sizes)
    sizes.add_argument("--difference", type=float, default=0.05)
    sizes.add_argument("--area", type=float, default=0.85, help="that is expected without the machine")
    sizes.add_argument("--abnormal", type=float, default=0.5, help="share of abnormal cases")
    for name, words, run in (
        ("start", "Open a trial for its readers", run_start),
        ("close", "End a trial; its report can then be made", run_close),
    ):
        verb(inner, name, words, run).add_argument("trial", type=int)
    status = verb(inner, "status", "Trials of a study, and how far their readers are", run_status)
    status.add_argument("--study", required=True)
    report = verb(inner, "report", "Write the report of a closed trial: HTML, lists for iMRMC and RJafroc", run_report)
    report.add_argument("trial", type=int)
    report.add_argument("--out", metavar="DIR", help="default: trials/TRIAL in the home folder")


def run_plan(args) -> int:
    from core.studio.trials import plan

    store = open_store(args)
    names = lambda text: tuple(n.strip() for n in text.split(",") if n.strip())  # noqa: E731
    values = {flag: getattr(args, flag) for flag in FLAGS if getattr(args, flag) is not None}
    values |= {"name": args.name, "readers": names(args.readers), "panel": names(args.panel), "run": args.of_run}
    chosen = plan.TrialPlan.from_dict({**values, "marks": args.marks, **options_of(args.set)})
    number = plan.make(store, study_named(args, store, args.study), chosen, BY, args.in_place_of)
    row = plan.get(store, number)
    cases = max(trial_part["cases"] for trial_part in plan.progress(store, number))
    return finish(
        args, {"trial": number, "digest": row["digest"], "cases": cases},
        f"Trial {number}: {len(chosen.readers)} readers, {cases} cases; digest {row['digest']}. `trial start {number}`",
    )  # fmt: skip


def run_sizes(args) -> int:
    from core.studio.trials.mrmc import Expected, sample_sizes

    rows = sample_sizes(args.difference, Expected(area=args.area, abnormal=args.abnormal))
    cases = sorted({row["cases"] for row in rows})
    lines = [
        {
            "readers": r,
            **{str(n): next(x["power"] for x in rows if (x["readers"], x["cases"]) == (r, n)) for n in cases},
        }
        for r in sorted({row["readers"] for row in rows})
    ]
    return finish(args, {"rows": rows}, table(lines, ["readers", *map(str, cases)]))


def run_start(args) -> int:
    from core.studio.trials import plan

    plan.start(open_store(args), args.trial, BY)
    return finish(args, {"trial": args.trial}, f"Trial {args.trial} is open for its readers, in the room Trials")


def run_close(args) -> int:
    from core.studio.trials import plan

    plan.close(open_store(args), args.trial, BY)
    return finish(args, {"trial": args.trial}, f"Trial {args.trial} is closed; `trial report {args.trial}`")


def run_status(args) -> int:
    from core.studio.trials import plan

    store = open_store(args)
    rows = []
    for trial in plan.of_study(store, study_named(args, store, args.study)):
        row = plan.get(store, trial["id"])
        state = "closed" if row["closed"] else "goes on" if row["started"] else "planned"
        keys = ("reader", "arm", "cases", "read", "ended")
        rows += [
            {"trial": trial["id"], "state": state, **{k: p[k] for k in keys}} for p in plan.progress(store, trial["id"])
        ]
    return finish(args, {"rows": rows}, table(rows, ["trial", "state", "reader", "arm", "cases", "read", "ended"]))


def run_report(args) -> int:
    from core.studio.trials import report

    store = open_store(args)
    out = Path(args.out) if args.out else store.home.path / "trials" / str(args.trial)
    result = report.write(store, args.trial, out)
    return finish(args, {**result, "out": str(out)}, f"Written to {out}: {', '.join(report.FILES)}")
