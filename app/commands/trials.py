"""Verbs for reader trials: trial plan|sizes|start|status|close|report."""

from __future__ import annotations

from pathlib import Path

from app.commands._common import (
    BY,
    arg,
    finish,
    open_store,
    option_flags,
    options_of,
    study_named,
    table,
    verb,
    verb_group,
)
from core.studio.trials.options import TrialPlan

FLAGS = ("design", "cases", "normal", "abnormal", "seed", "washout", "repeats", "scale", "rule", "reference")


verb_group("trial", "Reader trials: whether the detector helps readers")


@verb(
    "trial plan",
    arg("name"),
    arg("--study", required=True),
    arg("--readers", required=True, metavar="A,B,C", help="accounts with the role reader"),
    arg("--run", default="", dest="of_run", metavar="RUN", help="run whose results the aided arm shows"),
    arg("--panel", default="", metavar="D,E", help="members of the panel, for --reference panel"),
    arg("--marks", action="store_true", help="readers mark each lesion with a point or a box"),
    arg("--in-place-of", type=int, metavar="TRIAL", help="trial whose plan is replaced by this plan"),
    arg("--set", action="append", default=[], metavar="KEY=VALUE", help="any other option of the plan"),
    option_flags(TrialPlan, *FLAGS),
)
def run_plan(args) -> int:
    """Plan a trial, or replace its plan before the first decision."""
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


@verb(
    "trial sizes",
    arg("--difference", type=float, default=0.05),
    arg("--area", type=float, default=0.85, help="expected AUROC without the detector"),
    arg("--abnormal", type=float, default=0.5, help="fraction of abnormal cases"),
)
def run_sizes(args) -> int:
    """Compute the power to detect a difference in AUROC for several numbers of readers and cases."""
    from core.studio.trials.report import sizes

    rows = sizes(args.difference, args.area, args.abnormal)
    cases = sorted({row["cases"] for row in rows})
    lines = [
        {
            "readers": r,
            **{str(n): next(x["power"] for x in rows if (x["readers"], x["cases"]) == (r, n)) for n in cases},
        }
        for r in sorted({row["readers"] for row in rows})
    ]
    return finish(args, {"rows": rows}, table(lines, ["readers", *map(str, cases)]))


@verb("trial start", arg("trial", type=int))
def run_start(args) -> int:
    """Open a trial for its readers."""
    from core.studio.trials import plan

    plan.start(open_store(args), args.trial, BY)
    return finish(args, {"trial": args.trial}, f"Trial {args.trial} is open for its readers, in the room Trials")


@verb("trial close", arg("trial", type=int))
def run_close(args) -> int:
    """Close a trial, so that its report can be written."""
    from core.studio.trials import plan

    plan.close(open_store(args), args.trial, BY)
    return finish(args, {"trial": args.trial}, f"Trial {args.trial} is closed; `trial report {args.trial}`")


@verb("trial status", arg("--study", required=True))
def run_status(args) -> int:
    """List a study's trials and their readers' progress."""
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


@verb(
    "trial report", arg("trial", type=int), arg("--out", metavar="DIR", help="default: trials/TRIAL in the home folder")
)
def run_report(args) -> int:
    """Write the report of a closed trial as HTML and PDF, with input files for iMRMC and RJafroc."""
    from core.studio.trials import report

    store = open_store(args)
    out = Path(args.out) if args.out else store.home.path / "trials" / str(args.trial)
    result = report.write(store, args.trial, out)
    return finish(args, {**result, "out": str(out)}, f"Written to {out}: {', '.join(report.FILES)}")
