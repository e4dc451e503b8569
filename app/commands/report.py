"""report --study S: the paper's tables on a study, beside the published numbers."""

from __future__ import annotations

from pathlib import Path

from app.commands._common import finish, open_store, say, study_named, verb


def add(subparsers) -> None:
    parser = verb(subparsers, "report", "The paper's tables on a study, beside the published numbers", run)
    parser.add_argument("--study", required=True)
    parser.add_argument(
        "--tables", help="detection,localisation,ssl,ablation,augment,classes,centres,temperature (default: all)"
    )
    parser.add_argument("--rows", help="only rows with these labels: DAE,PANDA,PMSACL - PaDiM")
    parser.add_argument("--seeds", type=int, default=5, help="the paper runs five")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budget", default="quick", help="quick (narrow network, short) or paper (its own settings)")
    parser.add_argument("--size", type=int, help="side of the images (default: 64 for quick, 256 for paper)")
    parser.add_argument("--protocol", default="paper", choices=("paper", "held-out"), help="where thresholds come from")
    parser.add_argument("--dataset", help="whose published numbers: hyperkvasir, lag, liu, covidx (default: by name)")
    parser.add_argument("--bootstrap", type=int, default=1000)
    parser.add_argument("--background", action="store_true", help="queue it and return at once")
    parser.add_argument("--out", metavar="DIR", help="default: reports/STUDY in the home folder")


def run(args) -> int:
    from core.studio.report import asked
    from core.studio.report.report import make_asked

    store = open_store(args)
    settings = asked.settings(
        store,
        study_named(args, store, args.study),
        tables=args.tables.split(",") if args.tables else None,
        rows=[label.strip() for label in args.rows.split(",")] if args.rows else None,
        seeds=args.seeds,
        first_seed=args.first_seed,
        budget=args.budget,
        size=args.size,
        protocol=args.protocol,
        dataset=args.dataset,
        device=args.device,
        bootstrap=args.bootstrap,
        out=str(Path(args.out).absolute()) if args.out else None,
    )
    if args.background:
        job = asked.submit(store, settings)
        return finish(args, {"job": job, "status": "queued"}, f"Queued as job {job}; it will write {settings['out']}")
    payload = make_asked(store, settings, report=lambda v: say(args, v["message"]))
    return finish(args, payload, f"Written to {payload['out']}: {', '.join(asked.FILES.values())}")
