"""fit RUN: fit a detector on an encoder."""

from __future__ import annotations

from app.commands._as_one import as_one
from app.commands._common import UserError, finish, follow, open_store, options_of, say, verb


def add(subparsers) -> None:
    parser = verb(subparsers, "fit", "Fit a detector on the encoder of a pre-training run", run)
    parser.add_argument("run_id", metavar="RUN", help="a pre-training run")
    parser.add_argument("--detector", default="blend-head", help="blend-head, blend, nearest, padim, ...")
    parser.add_argument("--preset", help="quick, paper; lesion head: fundus, xray, ...")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting of the detector")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--score", action="store_true", help="then score and evaluate, in the same job")
    parser.add_argument("--name", help="a name for people")
    parser.add_argument("--background", action="store_true", help="queue it and return at once")


def config_of(detector: str, preset: str | None, changes: dict):
    """A detector's configuration: its preset (quick when there is one) with changes."""
    from core.engine.registry import DETECTORS

    kind = DETECTORS.get(detector)
    presets = getattr(kind, "presets", {})
    if preset and preset not in presets:
        raise UserError(f"{detector} has no preset {preset!r}; it has: {', '.join(presets) or 'none'}")
    base = presets.get(preset or "quick") or kind.Config()
    return base.replace(**changes)


def run(args) -> int:
    from core.engine import processes

    return _run_together(args) if processes.wanted() > 1 else _run(args)


def _config(args):
    changes = options_of(args.set) | ({} if args.seed is None else {"seed": args.seed})
    return config_of(args.detector, args.preset, changes)


def _encoder_of(store, args) -> str:
    from core.studio.runs import records as runs

    parent = runs.get_run(store, args.run_id)
    if parent["kind"] != "pretrain":
        raise UserError(f"{args.run_id} is not an encoder; its encoder is {parent['parent']}")
    return parent["id"]


def _run_together(args) -> int:
    from core.studio.runs import together
    from core.studio.runs.fitting import demand_shared

    if args.background:
        raise UserError("torchrun is for a fit in the foreground: leave out --background")
    demand_shared(args.detector)

    def begin(store) -> tuple[str, int]:
        parent, config = _encoder_of(store, args), _config(args).to_dict()
        return together.begin_fit(store, parent, args.detector, config, args.name, args.score, args.device)

    done = as_one(args, begin, f"Fitting {args.detector},")
    return 0 if done is None else _finish(args, *done)


def _run(args) -> int:
    from core.engine.tensors import pick_device
    from core.studio.jobs import queue as jobs
    from core.studio.runs.pipeline import chain, create_fit

    pick_device(args.device)
    store = open_store(args)
    run_id = create_fit(store, _encoder_of(store, args), args.detector, _config(args), args.name)
    steps = chain(fits=[run_id], score=args.score, device=args.device)
    job = jobs.submit(store, steps, start=args.background)
    if args.background:
        return finish(args, {"run": run_id, "job": job, "status": "queued"}, f"{run_id}: queued as job {job}")
    follow(args, store, job, f"Fitting {args.detector}")
    return _finish(args, store, run_id, job)


def _finish(args, store, run_id: str, job: int) -> int:
    from core.studio.runs import records as runs

    row = runs.get_run(store, run_id)
    say(args, f"{run_id}: {row['status']} in {row['seconds']:.1f} s")
    payload = {"run": run_id, "job": job, "status": row["status"], "seconds": row["seconds"]}
    payload |= {"study": row["study"], "folder": str(runs.run_folder(store, run_id))}
    return finish(args, payload, f"Next: {'evaluate' if args.score else 'score'} {run_id}")
