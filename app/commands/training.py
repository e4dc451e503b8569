"""Verbs that train encoders: pretrain, probe, medmix match, weights."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from app.commands._common import (
    BY,
    UserError,
    arg,
    finish,
    follow,
    open_store,
    open_to_compute,
    option_flags,
    options_of,
    say,
    study_named,
    table,
    verb,
    verb_group,
)
from core.engine.objectives.config import PretrainConfig

PROBED = [
    "preset",
    "accuracy",
    "chance",
    "lesion_accuracy",
    "survival",
    "lost",
    "closeness",
    "distance",
    "encoder",
    "images",
    "seconds",
]


def pretrain_config(args, store):
    """Returns the preset's configuration with the command line's changes. Raises UserError if it is invalid."""
    from core.engine.objectives.presets import PRETRAIN_DEFAULT, PRETRAIN_PRESETS
    from core.studio.medmix import presets
    from core.studio.runs.records import exists, get_run
    from core.studio.training import first_weights

    preset = args.preset or PRETRAIN_DEFAULT
    if preset not in PRETRAIN_PRESETS:
        raise UserError(f"unknown preset {preset!r}; choose from: {', '.join(PRETRAIN_PRESETS)}")
    config = PRETRAIN_PRESETS[preset]
    changes = {k: getattr(args, k) for k in ("size", "epochs", "batch", "lr", "seed", "objective") if getattr(args, k)}
    if args.epochs:
        changes["steps"] = 0  # the preset's number of steps would otherwise take precedence
    if args.size:
        changes |= {"fit_size": 0, "fit_closer": False}  # detectors use the requested size as well
    if args.seed is not None:
        changes |= {"seed": args.seed, "encoder.seed": args.seed}
    if args.medmix:
        pasted = presets.get_preset(store, args.medmix)
        if pasted["strong"] != "medmix":
            raise UserError(f"{args.medmix!r} is a preset of {pasted['strong']}, not of MedMix")
        changes["medmix"] = pasted["config"]
    if args.init and exists(store, args.init) and get_run(store, args.init)["kind"] != "pretrain":
        raise UserError(f"{args.init} is not a pre-training run")
    if args.init:
        changes |= {f"encoder.{key}": v for key, v in first_weights.chosen(store, args.init, args.arch).items()}
    elif args.arch:
        changes["encoder.arch"] = args.arch
    return config.replace(**{**changes, **options_of(args.set)})


@verb(
    "pretrain",
    arg("study"),
    arg("--preset", help="sphere (default), paper, as-printed, from-random, quick or imagenet"),
    arg("--objective", help="pmsacl, pmsacl-local, ccd, simclr, ...; or untrained, for comparison"),
    option_flags(PretrainConfig, "size", "epochs", "batch", "lr", "seed"),
    arg("--arch", help="backbone: resnet18, efficientnet-lite0, ... or any model name in timm"),
    arg("--init", help="initial weights: random, auto, imagenet, a file, a name in `weights list`, or the id of a run"),
    arg("--medmix", metavar="PRESET", help="MedMix preset of the pasted lesions, built in or saved"),
    arg("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting, such as medmix.k=2"),
    arg("--name", help="name of the run"),
    arg("--background", action="store_true", help="queue the job and return at once"),
)
def run_pretrain(args) -> int:
    """Train an encoder on a study's normal images."""
    from core.engine import processes

    return _pretrain_together(args) if processes.wanted() > 1 else _pretrain_here(args)


def _pretrain_together(args) -> int:
    """Trains in the processes that torchrun started: the first owns the run and its job, the others only compute."""
    from core.engine import processes
    from core.engine.progress import Stopped
    from core.engine.tensors import pick_device
    from core.studio.ingest.studies import show_study
    from core.studio.jobs import worker
    from core.studio.runs import pipeline, training
    from core.studio.runs.records import get_run

    if args.objective == "untrained" or args.background:
        raise UserError("torchrun is only for training in the foreground: run this command without torchrun")
    processes.join(pick_device(args.device))
    if not processes.is_first():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the first process stops all processes, at a checkpoint
        run = processes.from_first()  # the first process has created the home if necessary
        store = open_store(args)
        try:
            training.train_encoder(store, get_run(store, run), pick_device(args.device))
        except RuntimeError as error:  # the connection to another process is lost
            raise UserError(f"Another process has ended: {error}", 1) from None
        except Stopped:
            raise UserError("Stopped", 1) from None
        return 0
    store = open_store(args)
    study, config = show_study(store, args.study)["id"], pretrain_config(args, store).to_dict()
    run, job = pipeline.begin(store, study, config, args.name, args.device)
    processes.from_first(run)
    say(args, f"Training {run} in {processes.world()} processes")
    row = worker.execute_here(store, job)
    if row["status"] != "done":
        raise UserError(f"Job {job} {row['status']}: {row['error'] or row['message']}; the same command resumes it", 1)
    return _pretrain_done(args, store, run, job)


def _pretrain_here(args) -> int:
    from core.studio.jobs import queue as jobs
    from core.studio.runs.pipeline import UNTRAINED, chain, create_pretrain, create_untrained
    from core.studio.training import first_weights

    store = open_to_compute(args)
    study = study_named(args, store, args.study)
    if args.objective == UNTRAINED:
        first = {"arch": "resnet18", **first_weights.chosen(store, args.init or "random", args.arch)}
        run_id = create_untrained(store, study, args.size or 64, args.seed or 0, **first)
    else:
        run_id = create_pretrain(store, study, pretrain_config(args, store), args.name)
    job = jobs.submit(store, chain(run_id, device=args.device), start=args.background)
    if args.background:
        return finish(args, {"run": run_id, "job": job, "status": "queued"}, f"{run_id}: queued as job {job}")
    follow(args, store, job, f"Training {run_id}")
    return _pretrain_done(args, store, run_id, job)


def _pretrain_done(args, store, run_id: str, job: int) -> int:
    from core.studio.db import journal
    from core.studio.runs import records as runs

    row = runs.get_run(store, run_id)
    last = {name: points[-1][1] for name, points in journal.metrics(store, run_id).items()}
    payload = {"run": run_id, "job": job, "study": row["study"], "status": row["status"], "seconds": row["seconds"]}
    payload |= {"folder": str(runs.run_folder(store, run_id)), "last": last, **row["summary"]}
    say(args, f"{run_id}: {row['status']} in {row['seconds']:.1f} s. {row['summary'].get('message') or ''}".rstrip())
    return finish(args, payload, f"Next: fit {run_id}")


@verb(
    "probe",
    arg("study"),
    arg(
        "--preset",
        action="append",
        metavar="NAME",
        help="a MedMix preset, built in or saved (default: varied); may be given several times",
    ),
    arg("--weak", default="gentle", help="weak views: gentle or simclr"),
    arg("--encoder", default="untrained", help="untrained, latest, or the id of a run"),
    arg("--seed", type=int, default=1, help="seed of the images and of all random choices"),
    arg("--set", action="append", default=[], metavar="KEY=VALUE", help="setting to change in every preset"),
)
def run_probe(args) -> int:
    """Measure with a linear probe how separable the MedMix classes are, before any training."""
    from core.engine.augment.config import WEAK_PRESETS
    from core.studio.medmix import presets, probe
    from core.studio.medmix.preview import Scene

    if args.weak not in WEAK_PRESETS:
        raise UserError(f"unknown weak views {args.weak!r}; choose from: {', '.join(WEAK_PRESETS)}")
    store = open_store(args)
    study = study_named(args, store, args.study)
    rows = []
    for name in args.preset or ["varied"]:
        preset = presets.get_preset(store, name)
        config = {**preset["config"], **options_of(args.set)}
        scene = Scene.from_dict({
            "study": study, "strong": preset["strong"], "config": presets.checked(preset["strong"], config),
            "seed": args.seed, "weak_config": WEAK_PRESETS[args.weak].to_dict(),
        })  # fmt: skip
        result = probe.probe(store, scene, None if args.encoder == "untrained" else args.encoder)
        near = result["near"] or {}
        rows.append({"preset": name, **result, "closeness": near.get("closeness"), "distance": near.get("distance")})
        say(args, f"{name}: " + " ".join(w["text"] for w in result["words"]))
    return finish(args, {"study": study, "rows": rows}, "\n" + table(rows, PROBED))


verb_group("medmix", "Find MedMix settings whose pasted lesions look like real lesions")


@verb(
    "medmix match",
    arg("study"),
    arg("--case", action="append", default=[], metavar="NAME", help="case whose lesion is matched"),
    arg("--lesions", type=int, default=5, metavar="N", help="number of cases that are drawn without --case"),
    arg("--seconds", type=float, default=60, help="duration of the search"),
    arg("--tries", type=int, metavar="N", help="number of settings to try instead; the result is then reproducible"),
    arg("--seed", type=int, default=0, help="seed of the drawn cases, the images and the search"),
    arg("--name", default="matched", help="name of the preset"),
    arg("--out", type=Path, metavar="FILE", help="also write the preset and its origin as JSON"),
)
def run_match(args) -> int:
    """Search for MedMix settings whose lesions look like a study's lesions, and save the settings as a preset."""
    import random

    from core.studio.medmix import match

    store = open_store(args)
    study = study_named(args, store, args.study)
    rows = match.offered(store, study)
    missing = [name for name in args.case if not any(name in (r["name"], str(r["case"])) for r in rows)]
    if missing:
        raise UserError(f"no case {missing[0]!r} of {study} has a reference or accepted mask")
    if not rows:
        raise UserError(f"{study} has no reference or accepted mask: import masks, or annotate lesions first")
    sampled = random.Random(args.seed).sample(rows, min(args.lesions, len(rows)))
    chosen = [r for r in rows if r["name"] in args.case or str(r["case"]) in args.case] or sampled
    cases = tuple(sorted(r["case"] for r in chosen))
    begun = match.begin(store, match.MatchRequest(study, cases, args.seconds, args.tries, args.seed), start=False)
    follow(args, store, begun["job"], "Matching lesions")
    preset = match.save(store, begun["match"], args.name)
    payload = match.as_json(store, begun["match"], preset["name"])
    if args.out:
        args.out.write_text(json.dumps(payload, indent=2) + "\n", "utf-8")
    origin, words = payload["origin"], match.get(store, begun["match"])["state"]["words"]
    held_out = origin["left_out"]
    sentence = f"Distance {origin['after']:.2f}, best preset ({origin['preset']}) {origin['before']:.2f}"
    sentence += (
        "; the distance to other lesions is unknown, because it needs at least 4 lesions or patients"
        if held_out is None
        else f"; on held-out lesions {held_out:.2f}, best preset {origin['left_out_before']:.2f}"
    )
    say(args, f"{sentence}. Changed {words}." if words else f"{sentence}.")
    return finish(args, payload | {"version": preset["version"]}, f"Next: pretrain {study} --medmix '{preset['name']}'")


verb_group("weights", "Weights files from which training runs on the page may start")


@verb(
    "weights add",
    arg("file", type=Path, help=".pth, .pt, .safetensors, or Google's .npz of a ViT"),
    arg("--arch", default="", help="backbone of the file, such as vit_small_patch14_dinov2, which is checked"),
    arg("--licence", help="licence of the weights; asked for if --arch is given without it"),
)
def run_weights_add(args) -> int:
    """Copy a weights file into the home, and add the file to the list of initial weights."""
    from core.studio.training import first_weights

    licence = args.licence
    if args.arch and licence is None and not args.json and sys.stdin.isatty():
        licence = input(f"Licence of {args.file.name}, as its publisher states it: ").strip()
    if args.arch and not licence:
        raise UserError("give the licence of the weights, as their publisher states it: --licence 'Apache-2.0'")
    added = first_weights.add(open_store(args), args.file.expanduser(), BY, args.arch, licence or "")
    added = {"weights": added.pop("name"), **added}
    of = f" of {args.arch}" if args.arch else ""
    say(args, f"SHA-256 {added['sha256']}")
    return finish(args, added, f"{added['weights']}{of} is on the list; use it with --init {added['weights']}")


@verb("weights remove", arg("name"))
def run_weights_remove(args) -> int:
    """Remove a file from the list of initial weights."""
    from core.studio.training import first_weights

    first_weights.remove(open_store(args), args.name, BY)
    return finish(args, {"removed": args.name}, f"{args.name} was removed from the list")


@verb("weights list")
def run_weights_list(args) -> int:
    """List the initial weights from which training may start."""
    from core.studio.training import first_weights

    store = open_store(args)
    names = first_weights.listed(store)
    files = {name: noted for name in names if (noted := first_weights.noted(store, name))}
    for name in names:
        note = files.get(name, {})
        say(args, "  ".join(filter(None, (name, note.get("arch"), note.get("licence"), note.get("sha256", "")[:12]))))
    return finish(args, {"weights": names, "files": files})
