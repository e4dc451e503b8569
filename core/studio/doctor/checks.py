"""Checks an installation: Python, home, database, jobs, audit trail, device, and whether stored files are intact."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from core.studio.bundle import verify_foreign
from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.ingest import cache, originals
from core.studio.ingest.unreadable import Unreadable
from core.studio.jobs.processes import is_alive
from core.studio.runs import weights


@dataclass(frozen=True)
class Finding:
    """One result of a check. `level` is "ok", "note" (for information) or "bad" (needs action)."""

    level: str
    text: str


CHECKS: dict[str, tuple[str, Callable[[Store], list[Finding]]]] = {}


def check(name: str, title: str) -> Callable:
    """Returns a decorator that registers a function as a check. The function takes the store and returns findings."""

    def add(function):
        CHECKS[name] = (title, function)
        return function

    return add


def examine(store: Store, device: str = "auto") -> list[dict]:
    """Runs all checks; returns [{"check", "title", "level", "text"}]. A check that raises an error gets level "bad"."""
    results = []
    for name, (title, function) in {**CHECKS, "device": ("Device", lambda s: _device(device))}.items():
        try:
            findings = function(store)
        except Exception as error:
            findings = [Finding("bad", f"the check failed: {type(error).__name__}: {error}")]
        results += [{"check": name, "title": title, "level": f.level, "text": f.text} for f in findings]
    return results


def _device(name: str) -> list[Finding]:
    import torch

    from core.engine.tensors import pick_device

    try:
        device = pick_device(name)
    except ValueError as error:
        return [Finding("bad", str(error))]
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        name = torch.cuda.get_device_name(device)
        return [Finding("ok", f"{name}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free; torch {torch.__version__}")]
    return [Finding("ok", f"CPU, {torch.get_num_threads()} threads; torch {torch.__version__}")]


@check("python", "Python and packages")
def _python(store: Store) -> list[Finding]:
    import importlib.metadata

    version = platform.python_version()
    level = "ok" if sys.version_info >= (3, 10) else "bad"
    findings = [Finding(level, f"Python {version} in {sys.prefix}")]
    for line in _requirements():
        name = line.split("#")[0].split(">=")[0].split("~=")[0].strip()
        try:
            if name:
                importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            findings.append(Finding("bad", f"{name} is not installed; run: python launch.py setup"))
    return findings


def _requirements() -> list[str]:
    """Returns the requirements, from requirements.txt of the clone or from the installed package."""
    import importlib.metadata

    file = Path(__file__).resolve().parents[3] / "requirements.txt"
    return file.read_text().splitlines() if file.exists() else importlib.metadata.requires("pmsacl-studio") or []


@check("home", "Home and disk")
def _home(store: Store) -> list[Finding]:
    free = shutil.disk_usage(store.home.path).free / 2**30
    text = f"{store.home.path}, {free:.1f} GiB free"
    return [Finding("ok", text) if free > 5 else Finding("note", f"{text}; training needs space for checkpoints")]


@check("database", "Database")
def _database(store: Store) -> list[Finding]:
    bad = [r["integrity_check"] for r in store.query("PRAGMA integrity_check") if r["integrity_check"] != "ok"]
    findings = [Finding("bad", f"the database is damaged: {text}") for text in bad[:5]]
    loose = store.query("PRAGMA foreign_key_check")
    if loose:
        findings.append(Finding("bad", f"{len(loose)} rows refer to missing rows"))
    mode = store.first("PRAGMA journal_mode")["journal_mode"]
    if mode != "wal":
        findings.append(
            Finding("note", f"the journal is in mode {mode}, not WAL: readers and writers wait for each other")
        )
    return findings or [Finding("ok", f"{store.home.db.stat().st_size / 2**20:.1f} MiB, sound")]


@check("jobs", "Jobs")
def _jobs(store: Store) -> list[Finding]:
    findings = []
    for job in store.query("SELECT * FROM jobs WHERE status IN ('running', 'interrupted')"):
        if job["status"] == "interrupted" or not is_alive(job["pid"], job["pid_start"]):
            findings.append(Finding("note", f"job {job['id']} was interrupted: `jobs resume {job['id']}` continues it"))
    return findings or [Finding("ok", "no job is interrupted")]


@check("audit", "The audit trail's hash chain")
def _audit_trail(store: Store) -> list[Finding]:
    trail = audit.verify(store)
    elsewhere = verify_foreign(store)
    if trail["ok"] and not elsewhere:
        return [Finding("ok", f"{trail['events']} events, unbroken; the last one is {trail['head'][:16]}")]
    return [Finding("bad", problem) for problem in [*trail["problems"], *elsewhere]]


@check("images", "Images")
def _images(store: Store) -> list[Finding]:
    findings = []
    for study in store.query("SELECT id FROM studies ORDER BY id"):
        rows = store.query("SELECT DISTINCT path, sha256 FROM cases WHERE study = ?", [study["id"]])
        gone = [r["path"] for r in rows if not Path(r["path"]).exists()]
        other = [r["path"] for r in rows if _is_replaced(r)]
        advice = "put them back, or import the study again with --copy"
        for files, fault in ((gone, "are missing"), (other, "have changed since the import")):
            if files:
                text = f"{study['id']}: {len(files)} of {len(rows)} files {fault}, the first is {files[0]!r}"
                findings.append(Finding("bad", f"{text}; {advice}"))
        if not gone and not other:
            findings.append(Finding("ok", f"{study['id']}: all {len(rows)} files are present and unchanged"))
    return findings


def _is_replaced(case: dict) -> bool:
    try:
        originals.check(case["path"], case["sha256"])
    except Unreadable:
        return True
    return False


@check("caches", "Prepared images")
def _caches(store: Store) -> list[Finding]:
    findings, sound = [], 0
    for folder in cache.folders(store.home):
        if cache.is_sound(folder, full=True):
            sound += 1
            continue
        shutil.rmtree(folder, ignore_errors=True)
        text = f"images of {folder.parent.name} at {folder.name.split('-')[0]} pixels were damaged and are now removed"
        findings.append(Finding("note", f"{text}; they will be prepared again when needed"))
    return findings or [Finding("ok", f"all {sound} sets are intact")]


@check("runs", "Runs")
def _runs(store: Store) -> list[Finding]:
    rows = store.query("SELECT id, kind, folder FROM runs WHERE status IN ('done', 'collapsed')")
    findings = []
    for run in rows:
        folder = store.home.path / run["folder"]
        if not folder.is_dir():
            findings.append(Finding("bad", f"the files of run {run['id']} are missing"))
            continue
        findings += [Finding("bad", weights.sentence(run, text)) for text in weights.problems(folder, full=True)]
    folders = {r["folder"] for r in store.query("SELECT folder FROM runs")}
    loose = [f.name for f in sorted(store.home.runs.iterdir()) if f.is_dir() and f"runs/{f.name}" not in folders]
    if loose and not folders:
        text = f"the database has no runs, but there are files of {len(loose)} runs, such as {loose[0]!r}"
        findings.append(Finding("bad", f"{text}: the database was lost or replaced; use `restore` to recover it"))
    elif loose:
        findings.append(Finding("note", f"{len(loose)} folders belong to no run, such as {loose[0]!r}"))
    return findings or [Finding("ok", f"the files of all {len(rows)} finished runs are present and intact")]
