"""Data that the Training tab shows about runs: alarm, job, log, evaluation, and downsampled metrics."""

from __future__ import annotations

import threading

from core.engine.objectives.config import PretrainConfig
from core.engine.training.collapse import CollapseWatch, remedies
from core.studio.db import journal
from core.studio.db.journal import stride_of
from core.studio.db.store import Store, parsed
from core.studio.jobs import queue as jobs
from core.studio.jobs.queue import TRAINS
from core.studio.runs import records as runs
from core.studio.training.estimate import Estimate

_JSON = ("chain", "args")


class Alarms:
    """Collapse alarms of runs, computed from stored metrics by the CollapseWatch that training uses."""

    def __init__(self, store: Store):
        self._store = store
        self._watches: dict[str, tuple[CollapseWatch, int]] = {}
        self._lock = threading.Lock()

    def of(self, run: dict) -> str | None:
        """Returns the collapse alarm after the run's last stored step, as a sentence, or None."""
        with self._lock:
            watch, last = self._watches.get(run["id"]) or (self._new(run), 0)
            rows = self._store.query(
                "SELECT name, step, value FROM metrics WHERE run = ? AND step > ? AND name IN "
                "('spread', 'class_distance', 'aug_accuracy', 'feature_spread') ORDER BY step",
                [run["id"], last],
            )
            steps: dict[int, dict] = {}
            for row in rows:
                steps.setdefault(row["step"], {})[row["name"]] = row["value"]
            for step, value in steps.items():
                spread = value.get("spread")
                spread = float("nan") if spread is None else spread
                features = value.get("feature_spread")
                watch.update(step, spread, value.get("class_distance") or 0.0, value.get("aug_accuracy"), features)
                last = step
            self._watches[run["id"]] = (watch, last)
            return watch.alarm

    @staticmethod
    def _new(run: dict) -> CollapseWatch:
        config = PretrainConfig.from_dict(runs.settings_of(run["config"]))
        return CollapseWatch(config.k + 1, remedies(config))


def jobs_of_runs(store: Store) -> dict[str, dict]:
    """Returns the job of each run: the unfinished job that trains or fits the run, or else the newest job on the run.

    Each job has two additional keys: "here" is True if its current step belongs to the run, and "ahead" is True if a
    later step belongs to the run.
    """
    jobs.reap(store)
    jobs_by_run: dict[str, dict] = {}
    trained: set[str] = set()  # runs whose newest training or fit was in a previous row
    for row in store.query("SELECT * FROM jobs WHERE run IS NOT NULL ORDER BY id DESC LIMIT 400"):
        job = parsed(row, *_JSON)
        for run in {step["run"] for step in job["chain"] if step["run"]} - trained:
            trains = [i for i, step in enumerate(job["chain"]) if step["run"] == run and step["step"] in TRAINS]
            if trains:
                trained.add(run)
            unfinished = trains and trains[-1] >= job["position"] and job["status"] != "done"
            if run not in jobs_by_run or unfinished:
                ahead = any(step["run"] == run for step in job["chain"][job["position"] + 1 :])
                jobs_by_run[run] = {**job, "here": job["run"] == run, "ahead": ahead}
    return jobs_by_run


def brief(job: dict | None) -> dict | None:
    """Returns the fields of a job that the page shows, or None if there is no job.

    The field "share" is the finished fraction of the steps of the current run, 0 to 1.
    """
    if job is None:
        return None
    chain, maps = job["chain"], job.get("step") == "embed"
    of_run = [i for i, s in enumerate(chain) if s["run"] == job.get("run") and (s["step"] == "embed") == maps]
    inside = job["progress"] * len(chain) - (of_run[0] if of_run else 0)
    share = min(max(inside / max(len(of_run), 1), 0.0), 1.0)
    keys = ("id", "status", "run", "message", "error", "wants", "position", "here", "ahead")
    return {
        **{k: job.get(k) for k in keys},
        "verb": job.get("step"),
        "steps": [s["step"] for s in chain],
        "share": round(share, 4),
    }


def displayed_status(run: dict, job: dict | None) -> str:
    """Returns the status to display: the run's or, if the run is queued but its job is not, the status of the job."""
    waits = run["status"] == "queued" and job is not None and job["status"] not in ("queued", "running")
    return job["status"] if job and waits else run["status"]


def quiet(job: dict | None) -> dict | None:
    """Replaces a job's message by its status and removes its error, for readers in a blind session.

    A message or an error may contain the name of a case, or numbers that reveal labels.
    """
    return job and {**job, "message": job["status"].capitalize(), "error": None}


def live_status(store: Store) -> dict:
    """Returns what the page's status bar shows: {"studies": ids, "job", "beside", "waiting", "ended"}.

    job: Running job, or the next job if none is running.
    beside: Short job that runs alongside a training run, or None.
    waiting: Number of queued jobs.
    ended: Time when the last job ended, or None.
    """
    unfinished = jobs.list_jobs(store, "running", "queued")
    at_work = sorted((j for j in unfinished if j["status"] == "running"), key=lambda j: j["queue"])  # long before short
    waiting = [j for j in unfinished if j["status"] == "queued"]
    return {
        "studies": [r["id"] for r in store.query("SELECT id FROM studies WHERE binned IS NULL ORDER BY id")],
        "job": brief(next(iter(at_work), waiting[-1] if waiting else None)),
        "beside": brief(at_work[1] if len(at_work) > 1 else None),
        "waiting": len(waiting),
        "ended": store.first("SELECT max(finished) AS at FROM jobs")["at"],
    }


LISTED = ("id", "kind", "name", "parent", "method", "created", "finished", "seconds", "note", "archived")


def overview(store: Store, study: str, archived: bool = False) -> list[dict]:
    """Returns the runs of a study, newest first, as the page lists them.

    Each row includes the run's job, the seconds until the run is finished, the latest metrics and the evaluation.
    """
    at_work = jobs_of_runs(store)
    estimate = Estimate(store)
    rows = []
    for run in reversed(runs.list_runs(store, study, archived=None if archived else False)):
        job = at_work.get(run["id"])
        rows.append(
            {
                **{key: run[key] for key in LISTED},
                "epochs": run["config"].get("epochs"),
                "size": run["config"].get("size"),
                "collapsed": bool(run["summary"].get("collapsed")),
                "status": displayed_status(run, job),
                "job": brief(job),
                "left": _left(estimate, job, run["id"]),
                "latest": latest(store, run["id"], ("l_aug", "val_accuracy", "aug_accuracy", "epoch")),
                "evaluation": evaluation(store, run["id"]),
            }
        )
    return rows


def _left(estimate: Estimate, job: dict | None, run: str) -> float | None:
    """Returns the estimated seconds until a run is trained or fitted, scored and evaluated, or None if no job does so.

    The time for drawing maps is not included.
    """
    if job is None or job["status"] not in ("running", "queued"):
        return None
    seconds = [
        s
        for s, step in zip(estimate.steps(job), job["chain"], strict=True)
        if step["run"] == run and step["step"] != "embed"
    ]
    return round(sum(seconds), 1) or None


def evaluation(store: Store, run: str) -> dict | None:
    """Returns a run's latest evaluation, preferring one inside the region of interest, or None if there is none."""
    rows = store.query('SELECT "row" FROM evaluations WHERE run = ? ORDER BY id DESC LIMIT 8', [run])
    evaluations = [parsed(r, "row")["row"] for r in rows]
    if not evaluations:
        return None
    chosen = max(evaluations, key=lambda r: (bool(r.get("roi")), r.get("masks") == "reference"))  # the latest of equals
    keys = ("auroc", "ap", "sensitivity", "specificity", "pixel_auroc", "dice", "iou", "pro", "pro_all")
    return {k: chosen.get(k) for k in (*keys, "protocol", "roi", "cases", "masks", "set")}


def total_steps(store: Store, run: dict) -> dict:
    """Returns the length of a pre-training run on its study: {"steps", "epochs", "per_epoch": steps, "images"}."""
    images = store.query("SELECT count(*) AS n FROM cases WHERE study = ? AND split = 'train'", [run["study"]])[0]["n"]
    if run["kind"] != "pretrain" or not run["config"].get("epochs"):
        return {"steps": 0, "epochs": 0, "per_epoch": 0, "images": images}
    steps, per_epoch = PretrainConfig.from_dict(runs.settings_of(run["config"])).length(images)
    epochs = -(-steps // per_epoch) if per_epoch else 0
    return {"steps": steps, "epochs": epochs, "per_epoch": per_epoch, "images": images}


def detail(store: Store, alarms: Alarms, run_id: str, after: int = -1, stride: int = 0) -> dict:
    """Returns everything that the page shows about a run. For `after` and `stride`, see `series`."""
    run = runs.get_run(store, run_id)
    study = store.one("SELECT name, fingerprint FROM studies WHERE id = ?", [run["study"]])
    children = store.query(
        "SELECT id, name, method, status FROM runs WHERE parent = ? AND archived = 0 AND binned IS NULL "
        "ORDER BY created, rowid",
        [run_id],
    )
    at_work = jobs_of_runs(store)
    job = at_work.get(run_id)
    summary = {k: v for k, v in run["summary"].items() if k != "calibration"}
    return {
        "run": {**run, "status": displayed_status(run, job), "summary": summary},
        "data": study,
        "job": brief(job),
        "left": _left(Estimate(store), job, run_id),
        "plan": total_steps(store, run),
        "alarm": alarms.of(run) if run["kind"] == "pretrain" and run["config"].get("epochs") else None,
        "confusion": matrix(store, run_id, MATRIX[0]),
        "distances": matrix(store, run_id, MATRIX[1]),
        "log": journal.read_log(store, run_id, 100),
        "children": [
            {**c, "status": displayed_status(c, at_work.get(c["id"])), "evaluation": evaluation(store, c["id"])}
            for c in children
        ],
        "evaluation": evaluation(store, run_id),
        **series(store, run_id, after, stride),
    }


def differences(configs: list[dict]) -> list[dict]:
    """Returns the settings that differ between configurations, [{"key", "values"}]; nested keys are dotted."""
    flat = [runs.dotted(c) for c in configs]
    keys = sorted({k for f in flat for k in f})
    rows = [{"key": k, "values": [f.get(k) for f in flat]} for k in keys]
    return [r for r in rows if any(v != r["values"][0] for v in r["values"])]


POINTS = 500  # approximate number of points in a thinned series, which has at most twice as many
MATRIX = ("aug_confusion", "class_distances")


def series(store: Store, run: str, after: int = -1, stride: int = 0) -> dict:
    """Returns the metrics of a run for steps after `after`, downsampled for the page, without matrices.

    Returns {"series": {name: [[step, value], ...]}, "stride", "last", "reset"}, where last is the last stored step.
    Metrics of epochs (val_...) are never downsampled. `stride` is the stride of the previous result. If the run now
    needs a different stride, all metrics are returned again and "reset" is True.
    """
    last = (store.one("SELECT max(step) AS s FROM metrics WHERE run = ?", [run]) or {})["s"]
    current_stride = stride_of(last or 0, POINTS)
    reset = stride != current_stride or (last or 0) < after
    rows = store.query(
        "SELECT name, step, value FROM metrics WHERE run = :run AND step > :after AND (step % :stride = 0 OR step <= 2 "
        "OR substr(name, 1, 4) = 'val_' OR step = :last) AND name NOT LIKE 'aug!_confusion!_%' ESCAPE '!' "
        "AND name NOT LIKE 'class!_distances!_%' ESCAPE '!' ORDER BY name, step",
        {"run": run, "after": -1 if reset else after, "stride": current_stride, "last": last},
    )
    by_name: dict[str, list] = {}
    for row in rows:
        by_name.setdefault(row["name"], []).append([row["step"], row["value"]])
    return {"series": by_name, "stride": current_stride, "last": -1 if last is None else last, "reset": reset}


def matrix(store: Store, run: str, name: str) -> dict | None:
    """Returns the latest matrix of a run, as {"step", "rows"}, or None if there is none. `name` is one of MATRIX."""
    rows = store.query(
        "SELECT name, step, value FROM metrics WHERE run = :run AND name >= :low AND name < :high AND step = "
        "(SELECT max(step) FROM metrics WHERE run = :run AND name = :first)",
        {"run": run, "low": f"{name}_", "high": f"{name}`", "first": f"{name}_0_0"},
    )
    cells = {tuple(map(int, r["name"].removeprefix(f"{name}_").split("_"))): r["value"] for r in rows}
    side = 1 + max((i for i, _ in cells), default=-1)
    if len(cells) != side * side or not side:
        return None
    return {"step": rows[0]["step"], "rows": [[cells[i, j] for j in range(side)] for i in range(side)]}


def latest(store: Store, run: str, names: tuple[str, ...]) -> dict[str, float]:
    """Returns the last stored values of the metrics `names`, by name; metrics without values are omitted."""
    values = {}
    for name in names:
        row = store.one(
            "SELECT value FROM metrics WHERE run = ? AND name = ? AND value IS NOT NULL ORDER BY step DESC LIMIT 1",
            [run, name],
        )
        if row:
            values[name] = row["value"]
    return values
