"""Arms, the rows of the report's tables. An arm is an encoder and a detector with some changed options.

Its runs are ordinary runs that are named after all their settings, so that finished runs are found and reused.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from core.engine.config import Config
from core.engine.progress import Stop
from core.engine.registry import DETECTORS
from core.engine.training.pretrain import PRETRAIN_PRESETS, PretrainConfig
from core.studio.db.store import Store
from core.studio.jobs.steps import never
from core.studio.runs import records as runs
from core.studio.runs.pipeline import UNTRAINED, create_fit, create_pretrain, create_untrained, fit_run, pretrain_run
from core.studio.runs.scoring import score_run
from core.studio.runs.sides import SIZE, side_for


@dataclass(frozen=True)
class Arm(Config):
    """A row of a table: an encoder, a detector, and changes to their presets.

    encoder: Objective with which the encoder is trained, or `untrained`. Arms with equal settings share an encoder.
    preset: Name of the encoder's preset.
    fit_preset: Name of the detector's preset.
    pretrain: Changes to the encoder's preset, with dotted keys; if untrained, only `encoder.arch` and `encoder.init`.
    fit: Changes to the detector's preset, with dotted keys.
    sized: Whether the encoder uses the image side length of the report (--size) instead of the preset's.
    fit_size: Image side length of the detector in pixels, or 0 for the encoder's side length.
    closer: Whether the detector uses larger images if the study has few and large images (runs.sides).
    """

    label: str
    detector: str
    encoder: str = "pmsacl"
    preset: str = "quick"
    fit_preset: str = "quick"
    sized: bool = True
    fit_size: int = 0
    closer: bool = False
    pretrain: dict = field(default_factory=dict)
    fit: dict = field(default_factory=dict)

    def start(self) -> Config:
        """Returns the settings of the detector: the preset `fit_preset` or, without such a preset, the defaults."""
        kind = DETECTORS.get(self.detector)
        return kind.presets.get(self.fit_preset) or kind.Config()


def fitted(
    store: Store, study: str, arm: Arm, seed: int, *, size: int, device: str = "auto", should_stop: Stop = never
) -> str:
    """Fits and scores the detector of an arm, reusing or resuming existing runs, and returns the id of the fit.

    size: Image side length of the report in pixels (see `Arm.sized`). Raises Stopped if `should_stop` returns True.
    """
    arm = _at_side(store, study, arm)
    return _fit(store, _encoder(store, study, arm, seed, size, device, should_stop), arm, seed, device, should_stop)


def _digest(values: dict) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:8]


def _short(value: str) -> str:
    """Returns a value for a run's name. A path is reduced to its file name, because all readers see run names."""
    return f"{Path(value).name} {_digest({'file': value})}" if Path(value).is_absolute() else value


def _named(store: Store, study: str, name: str) -> list[dict]:
    """Returns the runs whose names match a LIKE pattern, oldest first."""
    query = (
        "SELECT id FROM runs WHERE study = ? AND name LIKE ? AND binned IS NULL AND archived = 0 ORDER BY created, id"
    )
    return [runs.get_run(store, row["id"]) for row in store.query(query, [study, name])]


def _trained(store: Store, study: str, arm: Arm, seed: int, name: str, config: PretrainConfig | None) -> dict | None:
    """Returns the run of an arm's encoder, even if options were added after it was named, or None if there is none."""
    earlier = _named(store, study, name)
    if not earlier and config:
        like = _named(store, study, f"experiment {arm.encoder} % seed {seed}")
        earlier = [
            r
            for r in like
            if r["config"]["epochs"] and PretrainConfig.from_dict(runs.settings_of(r["config"])) == config
        ]
    return earlier[0] if earlier else None


def _at_side(store: Store, study: str, arm: Arm) -> Arm:
    """Returns the arm with the detector's image side for this study, if it is not the default."""
    side = side_for(store, study) if arm.closer else SIZE
    return arm if side == SIZE else arm.replace(fit_size=side)


def _encoder_of(arm: Arm, seed: int, size: int) -> tuple[str, PretrainConfig | None]:
    """Returns the name of the run of an arm's encoder, and its configuration, or None for an untrained encoder."""
    if arm.encoder == UNTRAINED:
        changes = " ".join(_short(value) for value in arm.pretrain.values())
        return f"experiment untrained {changes} {size} px seed {seed}".replace("  ", " "), None
    defaults = {"objective": arm.encoder, "seed": seed, "encoder.seed": seed, **({"size": size} if arm.sized else {})}
    defaults["fit_closer"] = False  # the arm decides this, whatever its encoder
    config = PRETRAIN_PRESETS[arm.preset].replace(**{**defaults, **arm.pretrain})
    return f"experiment {arm.encoder} {_digest(config.to_dict())} seed {seed}", config


def _fit_of(arm: Arm, encoder: str, seed: int) -> tuple[str, Config]:
    """Returns the name and the configuration of the run of an arm's detector on an encoder's run."""
    config = arm.start()
    defaults = {"seed": seed} if "seed" in config.to_dict() else {}
    config = config.replace(**{**defaults, **arm.fit})
    side = f" {arm.fit_size} px" if arm.fit_size else ""
    return f"experiment {arm.detector}{side} {_digest(config.to_dict())} on {encoder}", config


def existing_runs(store: Store, study: str, arm: Arm, seed: int, *, size: int) -> tuple[dict | None, dict | None]:
    """Returns the rows of an arm's encoder run and detector run, each None if it does not exist. Starts no run."""
    arm = _at_side(store, study, arm)
    name, config = _encoder_of(arm, seed, size)
    encoder = _trained(store, study, arm, seed, name, config)
    fits = _named(store, study, _fit_of(arm, encoder["id"], seed)[0]) if encoder else []
    return encoder, fits[0] if fits else None


def work_of(store: Store, study: str, arm: Arm, seed: int, *, size: int) -> dict[str, list[tuple[str, dict]]]:
    """Returns the remaining steps of an arm: {"encoder": [(step, run)], "fit": [(step, run)]}.

    `run` is the row of an existing run, or the study, method, name and configuration of a run still to be created. Arms
    that share an encoder have the same `name` for its run.
    """
    arm = _at_side(store, study, arm)
    name, config = _encoder_of(arm, seed, size)
    encoder, fit = existing_runs(store, study, arm, seed, size=size)
    trained = encoder is not None and encoder["status"] in ("done", "collapsed")
    train = {"study": study, "method": arm.encoder, "name": name, "config": config.to_dict() if config else {}}
    new = {"study": study, "method": arm.detector, "name": "", "config": _fit_of(arm, "", seed)[1].to_dict()}
    return {
        "encoder": [] if trained else [("pretrain", train)],
        "fit": [(step, fit or new) for step in ("fit", "score", "evaluate")],
    }


def is_scored(run: dict) -> bool:
    """Returns whether a detector's run is done and has scored the cases of its study."""
    return run["status"] == "done" and "threshold" in run["summary"]


def _encoder(store: Store, study: str, arm: Arm, seed: int, size: int, device: str, should_stop: Stop = never) -> str:
    name, config = _encoder_of(arm, seed, size)
    earlier = _trained(store, study, arm, seed, name, config)
    if earlier:
        run = earlier["id"]
    elif config:
        run = create_pretrain(store, study, config, name)
    else:
        changes = {k.removeprefix("encoder."): v for k, v in arm.pretrain.items()}
        run = create_untrained(store, study, size, seed, **changes)
        runs.update_run(store, run, name=name)
    if runs.get_run(store, run)["status"] not in ("done", "collapsed"):
        pretrain_run(store, run, device, should_stop)
    return run


def _fit(store: Store, encoder: str, arm: Arm, seed: int, device: str, should_stop: Stop = never) -> str:
    name, config = _fit_of(arm, encoder, seed)
    study = runs.get_run(store, encoder)["study"]
    earlier = _named(store, study, name)
    run = earlier[0]["id"] if earlier else create_fit(store, encoder, arm.detector, config, name, arm.fit_size)
    if runs.get_run(store, run)["status"] != "done":
        fit_run(store, run, device, should_stop)
    if not is_scored(runs.get_run(store, run)):
        score_run(store, run, device, should_stop)
    return run
