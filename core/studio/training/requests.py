"""Actions of the Training tab: forms, checks of configurations, queued training runs and fits, and actions on runs."""

from __future__ import annotations

from core.engine.augment.config import MEDMIX_PRESETS, MedMixConfig
from core.engine.config import BadConfig, Config
from core.engine.detectors.lesion_head.config import LESION_TITLES
from core.engine.objectives.config import PretrainConfig
from core.engine.objectives.presets import NOTES, PRETRAIN_DEFAULT, PRETRAIN_PRESETS
from core.engine.registry import DETECTORS, OBJECTIVES, STRONG
from core.studio.db.store import Store
from core.studio.forms.fields import form, medmix_forms
from core.studio.ingest.donors import check_pool
from core.studio.ingest.roots import Within
from core.studio.jobs import queue as jobs
from core.studio.runs import bin, learnt, marks
from core.studio.runs import records as runs
from core.studio.runs.pipeline import chain, create_fit, create_pretrain
from core.studio.runs.preferred import LEARNT, USUAL
from core.studio.training import first_weights
from core.studio.training.live import jobs_of_runs


def training_forms(store: Store) -> dict:
    """Returns the contents of the form for a new run: objectives, presets, fields, detectors and defaults."""
    from core.engine.backbones.config import EncoderConfig

    strong = medmix_forms()
    return {
        "objectives": {name: {"title": OBJECTIVES.title(name)} for name in OBJECTIVES.names()},
        "presets": {name: config.to_dict() for name, config in PRETRAIN_PRESETS.items()},
        "notes": NOTES,
        "usual": PRETRAIN_DEFAULT,
        "pasted": {name: _pasted(config.medmix) for name, config in PRETRAIN_PRESETS.items()},
        "form": form(PretrainConfig),
        "encoder": _with_listed(store, form(EncoderConfig)),
        "archs": first_weights.archs(store),
        "weak": strong["weak"],
        "strong": {name: kind["title"] for name, kind in strong["strong"].items()},
        "detectors": {name: _detector(name) for name in sorted(DETECTORS.names(), key=_detector_order)},
        "lesions": LESION_TITLES,
        "device": store.setting("device", "auto"),
    }


def _with_listed(store: Store, groups: list[dict]) -> list[dict]:
    """Adds the weights on the list, and their backbones, to the options in the encoder's form."""
    added = first_weights.listed(store)[len(first_weights.NAMES) :]
    more = {"init": added, "arch": first_weights.archs(store).values()}
    for field in (field for group in groups for field in group["fields"] if field["key"] in more):
        field["options"] = list(dict.fromkeys([*field["options"], *more[field["key"]]]))
    return groups


def _pasted(config: MedMixConfig) -> str:
    """Returns the name of the MedMix preset with these settings, or "" if there is none."""
    return next((name for name, preset in MEDMIX_PRESETS.items() if preset == config), "")


def _detector_order(name: str) -> tuple:
    usual = (USUAL, "lesion-head", "padim", "igd")  # the page selects the first by default
    return (usual.index(name) if name in usual else len(usual), name)


def _detector(name: str) -> dict:
    kind = DETECTORS.get(name)
    learns = kind.presets.keys() >= LESION_TITLES.keys()  # from synthetic lesions
    lesions = {name: kind.presets[name].to_dict() for name in LESION_TITLES} if learns else {}
    return {
        "title": DETECTORS.title(name),
        "form": form(kind.Config),
        "defaults": kind.Config().to_dict(),
        "lesions": lesions,
    }


def checked(config: dict, store: Store | None = None, files: Within | None = None) -> PretrainConfig:
    """Checks that a configuration can be trained; returns it. Raises BadConfig, which names the invalid setting.

    store: Store in which the donor study must exist and the initial weights must be allowed, or None to check neither.
    files: Further weights files that are allowed, see `first_weights.resolve_weights`.
    """
    config = config if store is None else first_weights.resolve_weights(store, config, files)
    config_read = PretrainConfig.from_dict(runs.settings_of(config))
    if config_read.objective not in OBJECTIVES.names():
        raise BadConfig(f"objective must be one of {', '.join(OBJECTIVES.names())}, not {config_read.objective!r}")
    kind = STRONG.get(config_read.strong)
    strong = config_read.medmix if config_read.strong == "medmix" else kind.Config.from_dict(config_read.strong_options)
    if strong.k < config_read.k:
        raise BadConfig(
            f"k is {config_read.k}, but the strong augmentation makes only {strong.k}: raise its own k first"
        )
    if config_read.strong == "medmix" and config_read.medmix.from_marks and config_read.objective == "pmsacl-local":
        raise BadConfig("pmsacl-local uses patches, which may be smaller than annotated lesions: choose another donor")
    if store is not None and config_read.strong == "medmix":
        check_pool(store, config_read.medmix)
    return config_read


def start(
    store: Store,
    study: str,
    config: dict,
    name: str | None = None,
    detectors: dict[str, dict] | None = None,
    wake: bool = True,
    files: Within | None = None,
) -> dict:
    """Queues a job that trains an encoder and fits, scores and evaluates detectors; returns {"run", "fits", "job"}.

    detectors: Options of each detector, {name of the detector: options}.
    files: Further weights files that are allowed, see `first_weights.resolve_weights`.
    """
    ready = checked(config, store, files)
    kinds = _kinds(store, detectors or {}, files)

    def steps() -> list[dict]:
        run = create_pretrain(store, study, ready, name or None)
        fits = [create_fit(store, run, d, options) for d, options in kinds.items()]
        return chain(run, fits, device=store.setting("device", "auto"))

    options = {name: kind.to_dict() for name, kind in kinds.items()}
    job = jobs.once(store, ["train", study, ready.to_dict(), name, options], steps, wake)
    return {"run": jobs.runs_of(job, "pretrain")[0], "fits": jobs.runs_of(job, "fit"), "job": job["id"]}


def _kinds(store: Store, detectors: dict[str, dict], files: Within | None) -> dict[str, Config]:
    """Returns the checked configurations of detectors, by name. Raises BadConfig if a detector is unknown."""
    for name in detectors:
        if name not in DETECTORS.names():
            raise BadConfig(f"no detector is called {name!r}; choose from: {', '.join(DETECTORS.names())}")
    settled = {name: first_weights.resolve_weights(store, options, files) for name, options in detectors.items()}
    return {name: DETECTORS.get(name).Config.from_dict(options) for name, options in settled.items()}


def fit(store: Store, run: str, detectors: dict[str, dict], wake: bool = True, files: Within | None = None) -> dict:
    """Queues a job that fits, scores and evaluates detectors on a trained encoder; returns {"fits", "job"}.

    detectors: Options of each detector, {name of the detector: options}.
    files: Further weights files that are allowed, see `first_weights.resolve_weights`.
    Raises ValueError if no detector is given or the encoder is not trained.
    """
    if not detectors:
        raise ValueError("choose at least one detector")
    status = runs.get_run(store, run)["status"]
    if status not in ("done", "collapsed"):
        raise ValueError(f"the encoder is {status}: it must be trained before a detector is fitted on it")
    kinds = _kinds(store, detectors, files)

    def steps() -> list[dict]:
        fits = [create_fit(store, run, d, options) for d, options in kinds.items()]
        return chain(None, fits, device=store.setting("device", "auto"))

    job = jobs.once(store, ["fit", run, {name: kind.to_dict() for name, kind in kinds.items()}], steps, wake)
    return {"fits": jobs.runs_of(job, "fit"), "job": job["id"]}


def act(store: Store, run_id: str, action: str, value: str = "", wake: bool = True, by: str = "command line") -> dict:
    """Performs an action on a run; returns its result as a dictionary, which is empty for some actions.

    action: pause, resume, cancel, rename, note (set the note), archive, restore (from the archive), repeat, delete
    (move to the bin), or frees (return the number of bytes that deleting the run would free).
    value: New name or note of the run.
    """
    runs.get_run(store, run_id)
    if action in ("pause", "cancel"):
        return {"status": getattr(jobs, action)(store, _job(store, run_id))}
    if action == "resume":
        return {"status": jobs.resume(store, _job(store, run_id), start=wake)}
    if action == "rename":
        if not value.strip() or len(value) > 100:
            raise ValueError("a run's name has 1 to 100 characters")
        runs.update_run(store, run_id, name=value.strip())
    elif action == "note":
        runs.update_run(store, run_id, note=value[:4000])
    elif action in ("archive", "restore"):
        runs.update_run(store, run_id, archived=int(action == "archive"))
    elif action == "repeat":
        return repeat(store, run_id, wake)
    elif action == "frees":
        return {"bytes": sum(runs.folder_bytes(store, r) for r in (run_id, *runs.children(store, run_id)))}
    elif action == "delete":
        return {"bytes": delete(store, run_id, by)}
    else:
        raise ValueError(f"unknown action {action!r} on a run")
    return {}


def repeat(store: Store, run_id: str, wake: bool = True) -> dict:
    """Queues a new run with the configuration of a run. Returns {"run", "job"}.

    If cases or masks on which the old run was trained were deleted or changed, the new run uses current annotations.
    """
    old = runs.get_run(store, run_id)
    if old["config"].get("base_run") and marks.repeat_problem(store, old):
        return learnt.learn(store, old["config"]["base_run"], old["config"]["marks"].get("reader"), start=wake)
    stale = old["kind"] == "pretrain" and marks.repeat_problem(store, old)
    anew = {"marks": marks.as_donors(store, old["study"])} if stale else {}

    def steps() -> list[dict]:
        copy = runs.clone_run(store, run_id, name=f"{old['name']} again", **anew)
        if old["method"] == LEARNT:
            return learnt.steps(copy, store.setting("device", "auto"))
        return chain(copy) if old["kind"] == "pretrain" else chain(None, [copy])

    job = jobs.once(store, ["repeat", run_id], steps, wake)
    return {"run": jobs.runs_of(job, "pretrain", "fit")[0], "job": job["id"]}


def delete(store: Store, run_id: str, by: str = "command line") -> int:
    """Moves a run and its fits to the bin; returns their size in bytes. Raises ValueError if a job still needs them."""
    everything = [*runs.children(store, run_id), run_id]
    for job in jobs.list_jobs(store, "running", "queued"):
        if any(step["run"] in everything for step in job["chain"]):
            raise ValueError(f"job {job['id']} is {job['status']}: cancel it before deleting this run")
    return bin.put_run(store, run_id, by)


def _job(store: Store, run_id: str) -> int:
    job = jobs_of_runs(store).get(run_id)
    if job is None:
        raise ValueError("no job has this run; queue it again with 'repeat'")
    return job["id"]
