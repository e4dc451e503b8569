"""probe STUDY --preset NAME: how hard MedMix's classes are to separate, before any training."""

from __future__ import annotations

from app.commands._common import UserError, finish, open_store, options_of, say, study_named, table, verb

COLUMNS = [
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


def add(subparsers) -> None:
    parser = verb(subparsers, "probe", "A cross-validated linear probe on MedMix classes, before any training", run)
    parser.add_argument("study")
    parser.add_argument(
        "--preset",
        action="append",
        metavar="NAME",
        help="of MedMix (default: varied) or saved; may be given several times",
    )
    parser.add_argument("--weak", default="gentle", help="the weak views over them: gentle or simclr")
    parser.add_argument("--encoder", default="untrained", help="untrained, latest, or the id of a run")
    parser.add_argument("--seed", type=int, default=1, help="of the images and every draw")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a change to every preset")


def run(args) -> int:
    from core.engine.augment.config import WEAK_PRESETS
    from core.studio.medmix import presets, probe
    from core.studio.medmix.preview import Scene

    if args.weak not in WEAK_PRESETS:
        raise UserError(f"there are no weak views {args.weak!r}; there are: {', '.join(WEAK_PRESETS)}")
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
        found = probe.probe(store, scene, None if args.encoder == "untrained" else args.encoder)
        near = found["near"] or {}
        rows.append({"preset": name, **found, "closeness": near.get("closeness"), "distance": near.get("distance")})
        say(args, f"{name}: " + " ".join(w["text"] for w in found["words"]))
    return finish(args, {"study": study, "rows": rows}, "\n" + table(rows, COLUMNS))
