"""First look at a study without training: quick detectors on pretrained features, fitted and scored in one job."""

from __future__ import annotations

from core.engine.registry import DETECTORS
from core.studio.db.store import Store
from core.studio.jobs import queue as jobs
from core.studio.runs.pipeline import chain, create_fit, create_untrained
from core.studio.runs.preferred import AT_ONCE
from core.studio.runs.records import get_run, list_runs
from core.studio.runs.sides import ARCH, SIZE, side_for

DETECTOR = AT_ONCE
NAME = "First look"
MAP = {"feature": "backbone", "points": {"mixed": 0}}  # no MedMix images, because the encoder was not trained on them


def create_look(
    store: Store,
    study: str,
    arch: str = ARCH,
    size: int | None = None,
    detector: str = DETECTOR,
    init: str = "imagenet",
) -> dict[str, str]:
    """Creates the two runs of a first look at a study, without training; returns their ids, {'encoder', 'fit'}.

    All looks with the same settings share the pretrained encoder.

    size: Side length of the images in pixels. Defaults to that of an earlier look or, without one, to a suitable one.
    init: Weights of the encoder, as in an EncoderConfig.

    Raises UnknownName for an unknown detector. If the weights are not available, the fit raises BadWeights.
    """
    DETECTORS.get(detector)
    encoder = _kept(store, study, {"arch": arch, "init": init}, size)
    if encoder is None:
        # Other backbones may be slower, or accept a single size only.
        usual = side_for(store, study) if arch == ARCH else SIZE
        encoder = create_untrained(store, study, size or usual, init=init, arch=arch)
    return {"encoder": encoder, "fit": create_fit(store, encoder, detector, name=NAME)}


def look_steps(store: Store, runs: dict[str, str], evaluate: bool = True, **args) -> list[dict]:
    """Lists the job steps of a first look: fit, score and evaluate the detector, and draw a map for the Clusters tab.

    Slow reading aids are computed later. An existing map is not drawn again.
    """
    new = get_run(store, runs["encoder"])["status"] == "new"
    steps = chain(runs["encoder"] if new else None, [runs["fit"]], evaluate=evaluate, aids=False, **args)
    return [*steps, {"step": "embed", "run": runs["encoder"], "args": {"config": MAP, **args}}]


def look(store: Store, study: str, device: str = "auto", start: bool = True, **args) -> dict:
    """Queues a first look; returns {'job', 'encoder', 'fit'}. `args` are arguments of the job's steps."""

    def steps() -> list[dict]:
        return look_steps(store, create_look(store, study), device=device, **args)

    job = jobs.once(store, ["look", study], steps, start)
    return {"job": job["id"], "encoder": jobs.runs_of(job, "embed")[0], "fit": jobs.runs_of(job, "fit")[0]}


def _kept(store: Store, study: str, encoder: dict[str, str], size: int | None) -> str | None:
    """Returns the finished encoder run of an earlier look with images of side length `size` (None: any), or None."""
    for run in list_runs(store, study, "pretrain"):
        config = run["config"]
        same = size in (None, config.get("size")) and encoder.items() <= config.get("encoder", {}).items()
        if same and run["method"] in ("imagenet", "weights") and run["status"] == "done":
            return run["id"]
    return None
