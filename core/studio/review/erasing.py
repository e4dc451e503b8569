"""Erasing a patient from a home: what is there, what is deleted, what has learnt from it, and what cannot be reached.

Files go first and rows after them, so that an erasure that was cut short is simply asked for again. What was learnt
stays as it is and says so: weights cannot forget a case, they are learnt anew without it.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.engine.files import file_sha256
from core.studio.db import audit, backup
from core.studio.db.store import NotFound, Row, Store, now
from core.studio.ingest.patients import Patients
from core.studio.jobs import stopping
from core.studio.runs import records as runs

_GUARDS = ("reviews_no_delete", "events_no_update", "foreign_events_no_update")  # lifted while rows are erased
_TEXTS = {  # what people, programs and imports have written, where a name of a file may stand
    "settings": "value", "logs": "line", "jobs": "message", "runs": "note", "watches": "message", "findings": "comment",
}  # fmt: skip
SHORTEST = 4  # characters of a name that is looked for in other texts and in files: a shorter one stands everywhere
ERASED = "(erased)"


@dataclass(frozen=True)
class Trace:
    """What a home holds of a patient. outside: image files that are not the home's, and stay where they are.

    runs: [{"id", "name", "study"}] that learnt from it. maps: of a feature space, which show it or were made of it.
    made: folders and files of the home with pictures or tables of its studies. left: exports of these studies that went
    out. backups: copies of the database in the home.
    """

    cases: int
    studies: list[str]
    masks: int
    reviews: int
    findings: int
    readings: int
    events: int
    files: list[str]
    outside: list[str]
    prepared: list[str]
    maps: list[str]
    runs: list[dict[str, str]]
    made: list[str]
    left: int
    backups: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def cases_of(store: Store, patient: str = "", case: int | None = None) -> list[Row]:
    """Finds the cases of a patient in all studies, and those of the same content.

    They are found by the patient's name as the import knew it, or by one of the cases. Without a patient that is known:
    the case, with its volume or recording. Raises NotFound if there is none.
    """
    key = Patients(store)(Path(), patient) if patient.strip() else None
    rows = store.query("SELECT * FROM cases WHERE patient = ? OR id = ?", [key, case])
    wanted = json.dumps([row["id"] for row in rows])
    rows = store.query(
        "WITH these AS (SELECT c.* FROM cases c JOIN json_each(?) j ON c.id = j.value) SELECT * FROM cases WHERE "
        "id IN (SELECT id FROM these) OR patient IN (SELECT patient FROM these) OR path IN (SELECT path FROM these) "
        "OR series IN (SELECT series FROM these) OR sha256 IN (SELECT sha256 FROM these) ORDER BY id",
        [wanted],
    )
    if not rows:
        raise NotFound("There is no case of this patient: give the name as the import had it, or the number of a case.")
    return rows


def trace(store: Store, cases: list[Row]) -> Trace:
    """Counts and lists what a home holds of these cases."""
    ids, studies = [row["id"] for row in cases], sorted({row["study"] for row in cases})
    paths = sorted({row["path"] for row in cases})
    inside = [path for path in paths if Path(path).is_relative_to(store.home.path)]
    learnt = _learnt(store, cases)
    exports = [row for row in store.query("SELECT study FROM events WHERE kind = 'export'") if row["study"] in studies]
    return Trace(
        cases=len(cases),
        studies=studies,
        masks=_count(store, "lesion_masks", ids),
        reviews=_count(store, "reviews", ids),
        findings=_count(store, "findings", ids),
        readings=_count(store, "readings", ids),
        events=_count(store, "events", ids),
        files=[str(Path(path).relative_to(store.home.path)) for path in inside if Path(path).exists()],
        outside=[path for path in paths if path not in inside],
        prepared=[study for study in studies if (store.home.cache / study).exists()],
        maps=[row["key"] for row in _maps(store, studies)],
        runs=[{k: run[k] for k in ("id", "name", "study")} for run in learnt],
        made=[str(place.relative_to(store.home.path)) for place in _made(store, studies)],
        left=len(exports),
        backups=len(list(store.home.backups.glob("*.sqlite"))),
    )


def erase(store: Store, cases: list[Row], by: str, patient: str = "") -> dict[str, Any]:
    """Deletes the cases with all that is theirs; {"trace", "event", "still": files of the home that still name them}.

    patient: its name, which is then looked for in texts as well. Raises ValueError while a job is at work.
    """
    if at_work := stopping.at_work(store):
        raise ValueError(f"Job {at_work[0]['id']} runs or waits: stop all jobs first (`jobs stop`), then erase.")
    traced, words = trace(store, cases), _words(cases, patient)
    _remove_files(store, cases, traced)
    store.db.conn.execute("PRAGMA secure_delete = ON")
    with store.write():
        with _lifted(store):
            gone = _remove_rows(store, cases, words)
        _mark(store, cases)
        for study in traced.studies:
            _fingerprint(store, study)
        event = audit.record(store, by, "erase", after={"cases": len(cases), "studies": traced.studies, **gone})
    _compact(store)
    if traced.backups:
        for file in [*store.home.backups.glob("*.sqlite*"), *store.home.backups.glob("*.json")]:
            file.unlink(missing_ok=True)
        backup.backup(store.home)
    return {"trace": traced.to_dict(), "event": event, "still": still(store, words)}


def still(store: Store, words: Iterable[str]) -> list[str]:
    """Lists the files of the home in which one of the words still stands, by their name or content."""
    wanted = [word.encode() for word in words if len(word) >= SHORTEST]
    if not wanted:
        return []
    pattern, longest, files = re.compile(b"|".join(map(re.escape, wanted))), max(map(len, wanted)), []
    for file in sorted(store.home.path.rglob("*")):
        name = str(file.relative_to(store.home.path))
        if pattern and file.is_file() and (pattern.search(name.encode()) or _holds(file, pattern, longest)):
            files.append(name)
    return files


def _holds(file: Path, pattern: re.Pattern[bytes], longest: int) -> bool:
    with file.open("rb") as content:
        tail = b""
        while block := content.read(1 << 22):
            if pattern.search(tail + block):
                return True
            tail = block[-longest:]
    return False


def _count(store: Store, table: str, ids: list[int]) -> int:
    query = f"SELECT count(*) AS n FROM {table} WHERE case_id IN (SELECT value FROM json_each(?))"
    return int(store.first(query, [json.dumps(ids)])["n"])


def _words(cases: list[Row], patient: str) -> list[str]:
    """Collects what names a case in texts: longest first, so that a path goes as a whole."""
    names = {patient.strip(), *(row[name] for row in cases for name in ("name", "path", "sha256") if row[name])}
    names |= {Path(row["path"]).name for row in cases}
    return sorted(names - {""}, key=len, reverse=True)


def _learnt(store: Store, cases: list[Row]) -> list[Row]:
    """Runs that these cases were trained, fitted or calibrated with, or marked for; and those that went on from one."""
    ids, taught = {row["id"] for row in cases}, {row["study"] for row in cases if row["split"] != "test"}
    rows = [r for r in runs.list_runs(store, archived=None) if r["status"] not in ("new", "queued")]
    learnt: dict[str, Row] = {}
    while True:
        before = len(learnt)
        for run in rows:
            config, marks = json.dumps(run["config"]), run["config"].get("marks") or {}
            if (
                run["study"] in taught
                or ids & {*marks.get("cases", []), *marks.get("normals", [])}
                or any(f'"{study}"' in config for study in taught)  # its images are lesions' donors
                or run["parent"] in learnt
                or any(other in config for other in learnt)
            ):
                learnt[run["id"]] = run
        if len(learnt) == before:
            return list(learnt.values())


def _maps(store: Store, studies: list[str]) -> list[Row]:
    """Maps of the studies, of runs that paste their lesions, and those into which their images were projected."""
    rows = store.query(
        "SELECT m.*, r.config AS run_config, (SELECT group_concat(p.config) FROM cluster_projected p "
        "WHERE p.map = m.key) AS projected FROM cluster_maps m JOIN runs r ON r.id = m.run"
    )
    return [
        row for row in rows
        if row["study"] in studies
        or any(f'"{study}"' in f"{row['run_config']} {row['projected']}" for study in studies)
    ]  # fmt: skip


def _made(store: Store, studies: list[str]) -> list[Path]:
    """Reports, sheets and exports of models that were made of the studies, and lists of their files."""
    home = store.home.path
    ids = [r["id"] for r in store.query("SELECT id, study FROM runs") if r["study"] in studies]
    places = [home / "reports" / study for study in studies]
    places += [place for run in ids for place in (home / "sheets" / f"{run}.png", home / "exports" / run)]
    return [place for place in places if place.exists()]


def _remove_files(store: Store, cases: list[Row], traced: Trace) -> None:
    home = store.home
    others = {row["path"] for row in store.query("SELECT path FROM cases WHERE id NOT IN (SELECT value FROM "
              "json_each(?))", [json.dumps([row["id"] for row in cases])])}  # fmt: skip
    for name in traced.files:
        if str(home.path / name) not in others:
            (home.path / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                (home.path / name).parent.rmdir()
    for study in traced.prepared:
        shutil.rmtree(home.cache / study, ignore_errors=True)
    _remove_maps(store, traced)
    for name in traced.made:
        place = home.path / name
        shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)
    paths, digests = {row["path"] for row in cases}, {row["sha256"] for row in cases}
    for table in (home.path / "recipes").glob("*.csv"):
        _without(table, paths)
    for file in [f for f in home.cache.glob("dropped/*/**/*") if f.is_file()]:
        if file_sha256(file) in digests:
            file.unlink(missing_ok=True)


def _remove_maps(store: Store, traced: Trace) -> None:
    """Files of the maps, and all point sets and features that no other map stands on."""
    folder = store.home.clusters
    for key in traced.maps:
        shutil.rmtree(folder / "maps" / key, ignore_errors=True)
    mentions = "".join(file.read_text() for file in (folder / "maps").glob("*/*.json"))
    for place in [*(folder / "points").glob("*"), *(folder / "features").glob("*")]:
        if place.name.split(".")[0] not in mentions:
            shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)


def _without(table: Path, paths: set[str]) -> None:
    """Take the lines of some files out of a CSV of paths."""
    with table.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))
    others = [row for row in rows if not paths & {str(table.parent / cell) for cell in row}]
    if len(others) < len(rows):
        with table.open("w", newline="", encoding="utf-8") as out:
            csv.writer(out, lineterminator="\n").writerows(others)


@contextlib.contextmanager
def _lifted(store: Store) -> Iterator[None]:
    """Drops, for a while, the triggers that keep reviews and events as they are."""
    triggers = [r["sql"] for r in store.query("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
            if r["name"] in _GUARDS]  # fmt: skip
    for name in _GUARDS:
        store.execute(f"DROP TRIGGER {name}")
    yield
    for statement in triggers:
        store.execute(statement)


def _remove_rows(store: Store, cases: list[Row], words: list[str]) -> dict[str, Any]:
    """{"reviews", "masks", "events": numbers of what went, "sealed": new seals of reviews that came with bundles}."""
    ids = json.dumps([row["id"] for row in cases])
    these = "IN (SELECT value FROM json_each(?))"
    gone = {
        name: [row["id"] for row in store.query(f"SELECT id FROM {table} WHERE case_id {these} ORDER BY id", [ids])]
        for name, table in {"reviews": "reviews", "masks": "lesion_masks"}.items()
    }
    store.execute(f"DELETE FROM undone WHERE review_id {these}", [json.dumps(gone["reviews"])])
    for table in ("reviews", "current_reviews", "case_votes", "findings"):
        store.execute(f"DELETE FROM {table} WHERE case_id {these}", [ids])
    events = _blanked(store, "events", f"case_id {these}", ids, words)
    _blanked(store, "foreign_events", "0", None, words)
    paths = json.dumps([row["path"] for row in cases])
    store.execute(f"DELETE FROM incoming WHERE path {these}", [paths])
    studies = sorted({row["study"] for row in cases})
    for row in _maps(store, studies):
        store.execute("DELETE FROM cluster_maps WHERE key = ?", [row["key"]])
    store.execute(f"DELETE FROM cases WHERE id {these}", [ids])
    for table, column in _TEXTS.items():
        _reword(store, table, column, words)
    return {**gone, "events": events, "sealed": audit.sealed_again(store)}


def _blanked(store: Store, table: str, where: str, value: str | None, words: list[str]) -> list[int]:
    """Empty the content of events on the cases, and of those that name them; their numbers. Hash and place stay."""
    rows = []
    for row in store.query(f"SELECT *, {where} AS chosen FROM {table}", [] if value is None else [value]):
        text = f"{row['before']}{row['after']}{row['shown']}"
        if row["chosen"] or any(_named(word).search(text) for word in words):
            rows.append(row)
    if table == "events":
        for row in rows:
            empty = "before = 'null', after = 'null', shown = '{}', seconds = NULL"
            store.execute(f"UPDATE events SET {empty} WHERE id = ?", [row["id"]])
    else:  # as one whose content did not come along
        empty = ", ".join(f"{c} = NULL" for c in audit.SEALED if c not in ("id", "previous"))
        for row in rows:
            store.execute(f"UPDATE {table} SET {empty} WHERE bundle = ? AND id = ?", [row["bundle"], row["id"]])
    return [row["id"] for row in rows]


def _named(word: str) -> re.Pattern[str]:
    """The word where it is no part of a longer one; as JSON writes it, too."""
    forms = {re.escape(word), re.escape(json.dumps(word)[1:-1])}
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(sorted(forms))})(?![\w-])")


def _reword(store: Store, table: str, column: str, words: list[str]) -> None:
    for row in store.query(f'SELECT rowid AS number, "{column}" AS text FROM {table}'):
        text = row["text"] or ""
        for word in words:
            text = _named(word).sub(ERASED, text) if word in text or json.dumps(word)[1:-1] in text else text
        if text != (row["text"] or ""):
            store.execute(f'UPDATE {table} SET "{column}" = ? WHERE rowid = ?', [text, row["number"]])


def _mark(store: Store, cases: list[Row]) -> None:
    """Runs that learnt from the cases say so, and that they are to be learnt anew."""
    for run in _learnt(store, cases):
        count = len(cases) + (run["summary"].get("erased") or {}).get("cases", 0)
        said = (
            f"Learnt from {count} {'case' if count == 1 else 'cases'} that {'was' if count == 1 else 'were'} erased: "
        )
        note = "\n".join(line for line in run["note"].splitlines() if not line.startswith("Learnt from "))
        runs.update_run(
            store, run["id"], summary={**run["summary"], "erased": {"cases": count, "at": now()}},
            note=f"{note}\n{said}it cannot be repeated exactly any more. Repeat learns anew without.".strip(),
        )  # fmt: skip


def _fingerprint(store: Store, study: str) -> None:
    """Write the study's fingerprint, as an import does, of the cases that are left."""
    rows = store.query('SELECT sha256, frame, split, label FROM cases WHERE study = ? ORDER BY "row"', [study])
    text = "\n".join(f"{r['sha256']} {r['frame']} {r['split']} {r['label']}" for r in rows)
    store.execute("UPDATE studies SET fingerprint = ? WHERE id = ?", [hashlib.sha256(text.encode()).hexdigest(), study])


def _compact(store: Store) -> None:
    """Write the database anew, without what its free pages and its log still hold."""
    conn = store.db.conn
    conn.execute("VACUUM")
    with contextlib.suppress(sqlite3.OperationalError):
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    conn.execute("PRAGMA secure_delete = OFF")


def words(traced: Trace) -> list[str]:
    """Puts the trace into lines for people: what goes, what is to be learnt anew, what this home cannot delete."""

    def some(count: int, single: str, many: str = "") -> str:
        return f"{count} {single if count == 1 else many or f'{single}s'}"

    counted = (
        (traced.masks, "lesion mask"),
        (traced.reviews, "decision"),
        (traced.findings, "finding"),
        (traced.readings, "score"),
        (len(traced.files), "image file"),
    )
    goes = [
        some(traced.cases, "case") + f" of {', '.join(traced.studies)}",
        *(some(n, singular) for n, singular in counted if n),
    ]
    if traced.events:
        goes.append(f"the content of {some(traced.events, 'event')} of the audit trail")
    lines = [f"Goes: {', '.join(goes)}."]
    if traced.prepared or traced.maps or traced.made:
        lines.append(
            f"Goes, and is made again when it is asked for: prepared images of {', '.join(traced.prepared) or 'none'}, "
            f"{some(len(traced.maps), 'cluster map')}" + (f", {', '.join(traced.made)}." if traced.made else ".")
        )
    if traced.backups:
        lines.append(
            f"Goes: {some(traced.backups, 'backup')} in this home; a new one is made. Delete copies elsewhere."
        )
    if traced.runs:
        named = ", ".join(f"{run['name']} ({run['id']})" for run in traced.runs)
        lines.append(f"Has learnt from it, stays, and is to be learnt anew: {named}.")
    if traced.outside:
        lines.append(f"Stays, for it is not this home's: {', '.join(traced.outside)}.")
    if traced.left:
        lines.append(
            f"Went out and cannot be called back: {some(traced.left, 'export')} (“export” in the audit trail)."
        )
    return lines
