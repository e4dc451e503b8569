"""Checks of all files other than the database, read completely: images, prepared images, and the weights of runs."""

from __future__ import annotations

import shutil
from pathlib import Path

from core.studio.db.store import Store
from core.studio.doctor.findings import Finding, check
from core.studio.ingest import cache, originals
from core.studio.ingest.unreadable import Unreadable
from core.studio.runs import weights


@check("images", "Images")
def _images(store: Store) -> list[Finding]:
    findings = []
    for study in store.query("SELECT id FROM studies ORDER BY id"):
        rows = store.query("SELECT DISTINCT path, sha256 FROM cases WHERE study = ?", [study["id"]])
        gone = [r["path"] for r in rows if not Path(r["path"]).exists()]
        other = [r["path"] for r in rows if _is_replaced(r)]
        advice = "put them back, or import the study again with --copy"
        for files, fault in ((gone, "are gone"), (other, "are not what was imported")):
            if files:
                text = f"{study['id']}: {len(files)} of {len(rows)} files {fault}, the first is {files[0]!r}"
                findings.append(Finding("bad", f"{text}; {advice}"))
        if not gone and not other:
            findings.append(Finding("ok", f"{study['id']}: all {len(rows)} files are there, and are what was imported"))
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
        text = f"those of {folder.parent.name} at {folder.name.split('-')[0]} pixels were damaged and are removed"
        findings.append(Finding("note", f"{text}; they are made again when they are needed"))
    return findings or [Finding("ok", f"all {sound} sets are what was written")]


@check("runs", "Runs")
def _runs(store: Store) -> list[Finding]:
    rows = store.query("SELECT id, kind, folder FROM runs WHERE status IN ('done', 'collapsed')")
    findings = []
    for run in rows:
        folder = store.home.path / run["folder"]
        if not folder.is_dir():
            findings.append(Finding("bad", f"the files of run {run['id']} are gone"))
            continue
        findings += [Finding("bad", weights.sentence(run, text)) for text in weights.problems(folder, full=True)]
    folders = {r["folder"] for r in store.query("SELECT folder FROM runs")}
    loose = [f.name for f in sorted(store.home.runs.iterdir()) if f.is_dir() and f"runs/{f.name}" not in folders]
    if loose and not folders:
        text = f"the database knows no run, yet the files of {len(loose)} runs lie beside it, {loose[0]!r} among them"
        findings.append(Finding("bad", f"{text}: it was lost or replaced; put it back, or use `restore`"))
    elif loose:
        findings.append(Finding("note", f"{len(loose)} folders of runs belong to no run, {loose[0]!r} among them"))
    return findings or [
        Finding("ok", f"the files of all {len(rows)} finished runs are there, and are what was written")
    ]
