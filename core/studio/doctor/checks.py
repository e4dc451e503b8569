"""Checks of an installation: Python, home, database, jobs, audit trail, device; files.py has those of its files."""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path

from core.studio.bundle import verify_foreign
from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.doctor import files
from core.studio.doctor.findings import CHECKS, Finding, check
from core.studio.jobs.processes import is_alive

__all__ = ["Finding", "check", "examine", "files"]


def examine(store: Store, device: str = "auto") -> list[dict]:
    """Runs all checks: [{"check", "title", "level", "text"}]. If a check raises an exception, that is a finding."""
    results = []
    for name, (title, function) in {**CHECKS, "device": ("Device", lambda s: _device(device))}.items():
        try:
            findings = function(store)
        except Exception as error:
            findings = [Finding("bad", f"the check itself failed: {type(error).__name__}: {error}")]
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
    """Returns the lines of requirements.txt, from the clone or the installed package."""
    import importlib.metadata

    file = Path(__file__).resolve().parents[3] / "requirements.txt"
    return file.read_text().splitlines() if file.exists() else importlib.metadata.requires("pmsacl-studio") or []


@check("home", "Home and disk")
def _home(store: Store) -> list[Finding]:
    free = shutil.disk_usage(store.home.path).free / 2**30
    text = f"{store.home.path}, {free:.1f} GiB free"
    return [Finding("ok", text) if free > 5 else Finding("note", f"{text}: training needs room for checkpoints")]


@check("database", "Database")
def _database(store: Store) -> list[Finding]:
    bad = [r["integrity_check"] for r in store.query("PRAGMA integrity_check") if r["integrity_check"] != "ok"]
    findings = [Finding("bad", f"the database is damaged: {text}") for text in bad[:5]]
    loose = store.query("PRAGMA foreign_key_check")
    if loose:
        findings.append(Finding("bad", f"{len(loose)} rows refer to rows that are not there"))
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
            findings.append(Finding("note", f"job {job['id']} was interrupted: `jobs resume {job['id']}` goes on"))
    return findings or [Finding("ok", "none is interrupted")]


@check("audit", "The audit trail's hash chain")
def _audit_trail(store: Store) -> list[Finding]:
    trail = audit.verify(store)
    elsewhere = verify_foreign(store)
    if trail["ok"] and not elsewhere:
        return [Finding("ok", f"{trail['events']} events, unbroken; the last one is {trail['head'][:16]}")]
    return [Finding("bad", problem) for problem in [*trail["problems"], *elsewhere]]
