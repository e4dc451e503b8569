"""pretrain STUDY: train an encoder."""

from __future__ import annotations

from app.commands._as_one import as_one
from app.commands._common import UserError, finish, follow, open_store, option_flags, options_of, say, study_named, verb
from core.engine.objectives.config import PretrainConfig


def add(subparsers) -> None:
    parser = verb(subparsers, "pretrain", "Train an encoder on a study's normal images", run)
    parser.add_argument("study")
    parser.add_argument("--preset", help="imagenet (default), quick (random weights) or paper (as printed)")
    parser.add_argument("--objective", help="pmsacl, pmsacl-local, ccd, simclr, ...; or untrained, for comparison")
    option_flags(parser, PretrainConfig, "size", "epochs", "batch", "lr", "seed")
    parser.add_argument("--arch", help="backbone: resnet18, efficientnet-lite0, ... or any name of timm's")
    parser.add_argument("--init", help="random, auto, imagenet, a weights file, or the id of an earlier run")
    parser.add_argument("--medmix", metavar="PRESET", help="what is pasted: quick, paper, endoscopy, fundus, xray, ...")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting, as medmix.k=2")
    parser.add_argument("--name", help="a name for people")
    parser.add_argument("--background", action="store_true", help="queue it and return at once")


def config_of(args, store):
    """The preset with the command's changes."""
    from core.engine.augment.config import MEDMIX_PRESETS
    from core.engine.objectives.presets import PRETRAIN_DEFAULT, PRETRAIN_PRESETS
    from core.studio.runs.records import exists, get_run, run_folder

    preset = args.preset or PRETRAIN_DEFAULT
    if preset not in PRETRAIN_PRESETS:
        raise UserError(f"there is no preset {preset!r}; there are: {', '.join(PRETRAIN_PRESETS)}")
    config = PRETRAIN_PRESETS[preset]
    changes = {k: getattr(args, k) for k in ("size", "epochs", "batch", "lr", "seed", "objective") if getattr(args, k)}
    if args.epochs:
        changes["steps"] = 0  # which would count instead
    if args.size:
        changes |= {"fit_size": 0, "fit_closer": False}  # detectors see what is asked for, too
    if args.seed is not None:
        changes |= {"seed": args.seed, "encoder.seed": args.seed}
    if args.medmix:
        if args.medmix not in MEDMIX_PRESETS:
            raise UserError(f"there is no MedMix preset {args.medmix!r}; there are: {', '.join(MEDMIX_PRESETS)}")
        changes["medmix"] = MEDMIX_PRESETS[args.medmix].to_dict()
    if args.arch:
        changes["encoder.arch"] = args.arch
    if args.init:
        is_run = exists(store, args.init)
        if is_run and get_run(store, args.init)["kind"] != "pretrain":
            raise UserError(f"{args.init} is not an encoder's run")
        changes["encoder.init"] = str(run_folder(store, args.init)) if is_run else args.init
    return config.replace(**changes, **options_of(args.set))


def run(args) -> int:
    from core.engine import processes

    return _run_together(args) if processes.wanted() > 1 else _run(args)


def _run_together(args) -> int:
    from core.studio.ingest.studies import show_study
    from core.studio.runs import together

    if args.objective == "untrained" or args.background:
        raise UserError("torchrun is for a training in the foreground: leave it out here")

    def begin(store) -> tuple[str, int]:
        study = show_study(store, args.study)["id"]
        return together.begin(store, study, config_of(args, store).to_dict(), args.name, args.device)

    done = as_one(args, begin, "Training")
    return 0 if done is None else _finish(args, *done)


def _run(args) -> int:
    from core.engine.tensors import pick_device
    from core.studio.jobs import queue as jobs
    from core.studio.runs.pipeline import UNTRAINED, chain, create_pretrain, create_untrained

    pick_device(args.device)
    store = open_store(args)
    study = study_named(args, store, args.study)
    if args.objective == UNTRAINED:
        first = {"init": args.init or "random", "arch": args.arch or "resnet18"}
        run_id = create_untrained(store, study, args.size or 64, args.seed or 0, **first)
    else:
        run_id = create_pretrain(store, study, config_of(args, store), args.name)
    job = jobs.submit(store, chain(run_id, device=args.device), start=args.background)
    if args.background:
        return finish(args, {"run": run_id, "job": job, "status": "queued"}, f"{run_id}: queued as job {job}")
    follow(args, store, job, f"Training {run_id}")
    return _finish(args, store, run_id, job)


def _finish(args, store, run_id: str, job: int) -> int:
    from core.studio.db import journal
    from core.studio.runs import records as runs

    row = runs.get_run(store, run_id)
    last = {name: points[-1][1] for name, points in journal.metrics(store, run_id).items()}
    payload = {"run": run_id, "job": job, "study": row["study"], "status": row["status"], "seconds": row["seconds"]}
    payload |= {"folder": str(runs.run_folder(store, run_id)), "last": last, **row["summary"]}
    say(args, f"{run_id}: {row['status']} in {row['seconds']:.1f} s. {row['summary'].get('message') or ''}".rstrip())
    return finish(args, payload, f"Next: fit {run_id}")
