"""Erases a patient's data from a home, which is the studio's data folder, and lists what cannot be deleted.

An erasure is a row of the table `erasures` with a list of what to delete and the name of the next step in STEPS. Each
step can be repeated, so `go_on` continues an interrupted erasure when the studio starts and once a day. Trained models
stay, with a note that they should be trained again, because weights cannot forget a case.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.engine.files import file_sha256
from core.studio.db import audit, backup
from core.studio.db.store import NotFound, Row, Store, now
from core.studio.ingest import erased
from core.studio.ingest.patients import Patients
from core.studio.jobs import stopping
from core.studio.runs import records as runs

# Columns of free text by people, programs and imports, which may name a file or the patient.
_TEXTS = (
    ("reviews", "comment"), ("findings", "comment"), ("lesion_masks", "note"), ("logs", "line"), ("jobs", "message"),
    ("jobs", "error"), ("runs", "note"), ("watches", "message"), ("presets", "note"),
)  # fmt: skip
SHORTEST = 4  # characters of a name that is searched in texts and files, because shorter names occur everywhere
ERASED = audit.ERASED
_THESE = "IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True)
class Trace:
    """What an erasure of a patient deletes or keeps in a home, the studio's data folder, as numbers and lists.

    readings: Number of stored scores of the patient's cases.
    comments: Number of comments on other cases that name the patient.
    files: Paths of the patient's image files in the home, relative to the home.
    outside: Paths of the patient's image files outside the home, which are not deleted.
    prepared: Ids of the patient's studies that have cached image arrays.
    maps: Keys of the cluster maps that use images of the patient's studies.
    runs: Runs trained on the patient's cases, as {"id", "name", "study"}, which are kept.
    made: Paths of the studies' reports, sheets and exported models, relative to the home.
    left: Number of earlier exports of the studies, which cannot be recalled.
    backups: Number of database backups in the home.
    """

    cases: int
    studies: list[str]
    masks: int
    reviews: int
    findings: int
    readings: int
    comments: int
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
    """Returns the rows of a patient's cases in all studies, and of other cases with the same image file or series.

    patient: Patient's name or id as in the import.
    case: Id of one of the patient's cases. If the patient is unknown, only the same file or series is searched.

    Raises NotFound if no case matches.
    """
    key = Patients(store)(Path(), patient) if patient.strip() else None
    rows = store.query("SELECT * FROM cases WHERE patient = ? OR id = ?", [key, case])
    return _with_the_same(store, [row["id"] for row in rows])


def _with_the_same(store: Store, ids: list[int]) -> list[Row]:
    rows = store.query(
        "WITH these AS (SELECT c.* FROM cases c JOIN json_each(?) j ON c.id = j.value) SELECT * FROM cases WHERE "
        "id IN (SELECT id FROM these) OR patient IN (SELECT patient FROM these) OR path IN (SELECT path FROM these) "
        "OR series IN (SELECT series FROM these) OR sha256 IN (SELECT sha256 FROM these) ORDER BY id",
        [json.dumps(ids)],
    )
    if not rows:
        raise NotFound("No case of this patient was found: give the patient's name as imported, or a case's number.")
    return rows


def trace(store: Store, cases: list[Row], patient: str = "") -> Trace:
    """Lists what an erasure of the cases deletes or keeps. patient: Patient's name, searched for in comments."""
    ids, studies = [row["id"] for row in cases], sorted({row["study"] for row in cases})
    paths = sorted({row["path"] for row in cases})
    inside = [path for path in paths if Path(path).is_relative_to(store.home.path)]
    outside = sorted({*_incoming(store, cases), *paths} - {*inside})
    exports = [row for row in store.query("SELECT study FROM events WHERE kind = 'export'") if row["study"] in studies]
    words = _pattern(_words(cases, patient))
    comments = store.query(
        f"SELECT comment FROM reviews WHERE comment != '' AND NOT case_id {_THESE} UNION ALL "
        f"SELECT comment FROM findings WHERE comment != '' AND NOT case_id {_THESE}", [json.dumps(ids)] * 2,
    )  # fmt: skip
    return Trace(
        cases=len(cases),
        studies=studies,
        masks=_count(store, "lesion_masks", ids),
        reviews=_count(store, "reviews", ids),
        findings=_count(store, "findings", ids),
        readings=_count(store, "readings", ids),
        comments=sum(bool(words and words.search(row["comment"])) for row in comments),
        files=[str(Path(path).relative_to(store.home.path)) for path in inside if Path(path).exists()],
        outside=outside,
        prepared=[study for study in studies if (store.home.cache / study).exists()],
        maps=[row["key"] for row in _maps(store, studies)],
        runs=[{k: run[k] for k in ("id", "name", "study")} for run in _learnt(store, cases)],
        made=[str(file.relative_to(store.home.path)) for file in _made(store, studies)],
        left=len(exports),
        backups=len(list(store.home.backups.glob("*.sqlite"))),
    )


def erase(store: Store, cases: list[Row], by: str, patient: str = "") -> dict[str, Any]:
    """Deletes the cases with all their data, and makes later imports refuse the same images.

    Args:
        store: Database of the home.
        cases: Rows of the cases, from `cases_of`.
        by: Name of the person who requested the erasure.
        patient: Patient's name, if it is also to be removed from free text.

    Returns:
        {"trace": the `Trace` of the cases as a dictionary, "still": paths of files in the home that still contain a
        name of a case or of the patient, "open": sentences about steps that failed and will be retried}.

    Raises:
        ValueError: If a job is running or queued.
    """
    if at_work := stopping.at_work(store):
        raise ValueError(f"Job {at_work[0]['id']} is running or queued: stop all jobs (`jobs stop`), then erase.")
    traced, words = trace(store, cases, patient), _words(cases, patient)
    _ask(store, cases, by, words)
    return {"trace": traced.to_dict(), "open": go_on(store), "still": files_with_words(store, words)}


def _ask(store: Store, cases: list[Row], by: str, words: list[str]) -> None:
    studies = sorted({row["study"] for row in cases})
    uids = [erased.uid_of(Path(path)) for path in sorted({row["path"] for row in cases})]
    request = {
        "cases": [row["id"] for row in cases],
        "names": sorted({name for row in cases for name in (row["name"], Path(row["path"]).name)}),
        "paths": sorted({row["path"] for row in cases}),
        "incoming": _incoming(store, cases),
        "contents": sorted({row["sha256"] for row in cases if row["sha256"]}),
        "uids": [uid for uid in uids if uid],
        "studies": studies,
        "maps": [row["key"] for row in _maps(store, studies)],
        "made": [str(file) for file in _made(store, studies)],
        "words": words,
    }
    query = "INSERT INTO erasures (by, asked, step, request) VALUES (?, ?, 'rows', ?)"
    digests = erased.digests(store, [*request["contents"], *request["uids"]])
    with store.write() as db:  # from this transaction on, every import refuses the images
        db.conn.executemany("INSERT OR IGNORE INTO erased (digest) VALUES (?)", [(digest,) for digest in digests])
        db.execute(query, [by, now(), json.dumps(request)])


def go_on(store: Store, by: str = "studio") -> list[str]:
    """Continues all unfinished erasures, and repeats an erasure if a restored backup has brought its images back.

    Returns a sentence for each erasure that failed and will be retried.
    """
    problems = _finish_all(store)
    if not problems and (back := [row["id"] for row in _back(store)]):
        cases = _with_the_same(store, back)
        _ask(store, cases, by, _words(cases, ""))
        problems = _finish_all(store)
    return problems


def _finish_all(store: Store) -> list[str]:
    problems = []
    for row in store.query("SELECT id FROM erasures WHERE step IS NOT NULL ORDER BY id"):
        try:
            _finish(store, row["id"])
        except (OSError, sqlite3.OperationalError, backup.BadBackup) as error:
            problems.append(f"Erasure {row['id']} is not finished and continues automatically: {error}")
    return problems


def _back(store: Store) -> list[Row]:
    if store.one("SELECT 1 FROM erased LIMIT 1") is None:
        return []
    hashed = store.query("SELECT id, sha256 FROM cases WHERE sha256 IS NOT NULL")
    erased_digests = {row["digest"] for row in store.query("SELECT digest FROM erased")}
    digests = erased.digests(store, (row["sha256"] for row in hashed))
    return [row for row, digest in zip(hashed, digests, strict=True) if digest in erased_digests]


def _finish(store: Store, number: int) -> None:
    names = [*STEPS, None]
    while (row := store.first("SELECT * FROM erasures WHERE id = ?", [number]))["step"] is not None:
        STEPS[row["step"]](store, number, json.loads(row["request"] or "{}"))
        following = names[names.index(row["step"]) + 1]
        done = now() if following is None else None
        store.execute("UPDATE erasures SET step = ?, done = ? WHERE id = ? AND step = ?",
                      [following, done, number, row["step"]])  # fmt: skip


# The steps in order. Each step may be interrupted anywhere and started again.


def _rows(store: Store, number: int, request: Row) -> None:
    """Deletes the rows, records the erasure and updates fingerprints and notes on runs, all in one transaction."""
    ids = json.dumps(request["cases"])
    with store.write() as db:
        if store.one("SELECT 1 FROM erasures WHERE id = ? AND step = 'rows'", [number]) is None:
            return  # another process has already finished this step
        cases = store.query(f"SELECT * FROM cases WHERE id {_THESE}", [ids])
        _mark(store, cases)
        deleted = {
            name: [
                row["id"] for row in store.query(f"SELECT id FROM {table} WHERE case_id {_THESE} ORDER BY id", [ids])
            ]
            for name, table in {"reviews": "reviews", "masks": "lesion_masks"}.items()
        }
        db.execute(f"DELETE FROM undone WHERE review_id {_THESE}", [json.dumps(deleted["reviews"])])
        for table in ("reviews", "current_reviews", "case_votes", "findings"):
            db.execute(f"DELETE FROM {table} WHERE case_id {_THESE}", [ids])
        db.execute(f"DELETE FROM incoming WHERE path {_THESE}", [json.dumps(request["incoming"])])
        db.execute(f"DELETE FROM cluster_maps WHERE key {_THESE}", [json.dumps(request["maps"])])
        db.execute(f"DELETE FROM cases WHERE id {_THESE}", [ids])
        comments = _without_words(store, request["words"])
        for study in request["studies"]:
            _fingerprint(store, study)
            report = store.setting(f"import:{study}")
            if report is not None:
                store.set_setting(f"import:{study}", _pruned(report, {*request["names"], *request["paths"]}))
        after = {"erasure": number, "cases": len(cases), "studies": request["studies"], **deleted, "comments": comments}
        by = store.first("SELECT by FROM erasures WHERE id = ?", [number])["by"]
        audit.record(store, by, "erase", after=after | {"sealed": audit.sealed_again(store)})
        db.execute("UPDATE erasures SET step = 'files' WHERE id = ?", [number])


def _files(store: Store, number: int, request: Row) -> None:
    """Deletes image files in the home, uploads with the same content, and lines of file lists."""
    used = store.query(f"SELECT path FROM cases WHERE path {_THESE}", [json.dumps(request["paths"])])
    for path in {*request["paths"]} - {row["path"] for row in used}:
        if Path(path).is_relative_to(store.home.path):
            Path(path).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # raised if the folder holds other images
                Path(path).parent.rmdir()
    for file in [f for f in store.home.cache.glob("dropped/*/**/*") if f.is_file()]:
        if file_sha256(file) in request["contents"]:
            file.unlink(missing_ok=True)
    for table in (store.home.path / "recipes").glob("*.csv"):
        _without_lines(table, {*request["paths"]})


def _caches(store: Store, number: int, request: Row) -> None:
    """Deletes data computed from the images: image arrays, cluster maps, reports and sheets. A process that recomputes
    such data at the same time reads rows without the images, or notices the change at its end (`ingest.cache`)."""
    for study in request["studies"]:
        _remove(store.home.cache / study)
    for key in request["maps"]:
        _remove(store.home.clusters / "maps" / key)
    mentions = "".join(file.read_text() for file in store.home.clusters.glob("maps/*/*.json"))
    for kind in ("points", "features"):
        for stale in (store.home.clusters / kind).glob("*"):
            if stale.name.split(".")[0] not in mentions:
                _remove(stale)
    for stale in request["made"]:
        _remove(Path(stale))


def _forget(store: Store, number: int, request: Row) -> None:
    """Deletes the request, and rewrites the database so that its free pages and its log hold no erased data."""
    store.execute("UPDATE erasures SET request = NULL WHERE id = ?", [number])
    store.db.conn.execute("VACUUM")
    if store.db.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        raise sqlite3.OperationalError("the database is being read, so its log still holds erased data")


def _backups(store: Store, number: int, request: Row) -> None:
    """Replaces all backups by a new backup, after the new backup has been read back successfully."""
    if any(store.home.backups.glob("*.sqlite*")):
        newest = store.first("SELECT backup FROM erasures WHERE id = ?", [number])["backup"]
        if newest is None or not (store.home.backups / newest).exists():
            newest = backup.backup(store.home).file
            store.execute("UPDATE erasures SET backup = ? WHERE id = ?", [newest, number])
        backup.delete_before(store.home.backups, newest)


STEPS: dict[str, Callable[[Store, int, Row], None]] = {
    "rows": _rows, "files": _files, "caches": _caches, "forget": _forget, "backups": _backups,
}  # fmt: skip


def files_with_words(store: Store, words: Iterable[str]) -> list[str]:
    """Lists the home's files with one of the words in path or content, ignoring words below SHORTEST letters."""
    encoded = [word.encode() for word in words if len(word) >= SHORTEST]
    if not encoded:
        return []
    pattern, longest, files = re.compile(b"|".join(map(re.escape, encoded))), max(map(len, encoded)), []
    for file in sorted(store.home.path.rglob("*")):
        name = str(file.relative_to(store.home.path))
        if file.is_file() and (pattern.search(name.encode()) or _holds(file, pattern, longest)):
            files.append(name)
    return files


def _holds(file: Path, pattern: re.Pattern[bytes], longest: int) -> bool:
    with contextlib.suppress(FileNotFoundError), file.open("rb") as content:
        tail = b""
        while block := content.read(1 << 22):
            if pattern.search(tail + block):
                return True
            tail = block[-longest:]
    return False


def _incoming(store: Store, cases: list[Row]) -> list[str]:
    names, studies = ({key(row) for row in cases} for key in (lambda r: Path(r["path"]).name, lambda r: r["study"]))
    rows = store.query("SELECT study, path FROM incoming WHERE state = 'taken'")
    return sorted({row["path"] for row in rows if row["study"] in studies and Path(row["path"]).name in names})


def _count(store: Store, table: str, ids: list[int]) -> int:
    return int(store.first(f"SELECT count(*) AS n FROM {table} WHERE case_id {_THESE}", [json.dumps(ids)])["n"])


def _words(cases: Sequence[Row], patient: str) -> list[str]:
    """Collects the names, paths and hashes by which texts may refer to a case, longest first, so that a path is
    replaced as a whole."""
    names = {patient.strip(), *(row[name] for row in cases for name in ("name", "path", "sha256") if row[name])}
    names |= {Path(row["path"]).name for row in cases}
    return sorted(names - {""}, key=len, reverse=True)


def _pattern(words: Sequence[str]) -> re.Pattern[str] | None:
    """Returns a pattern that matches the words as whole words, or None if all words are too short for a search."""
    long = "|".join(re.escape(word) for word in words if len(word) >= SHORTEST)
    return re.compile(rf"(?<![^\W_])(?:{long})(?![^\W_])") if long else None


def _without_words(store: Store, words: Sequence[str]) -> list[Row]:
    """Replaces the words in free text by ERASED and returns the changed reviews as [{"review", "sha256"}]."""
    pattern, reviews = _pattern(words), []
    for table, column in _TEXTS if pattern else ():
        for row in store.query(f"SELECT rowid AS number, {column} AS text FROM {table} WHERE {column} != ''"):
            text = pattern.sub(ERASED, row["text"]) if pattern else row["text"]
            if text != row["text"]:
                store.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", [text, row["number"]])
                reviews += [row["number"]] * (table == "reviews")
    changed = store.query(f"SELECT * FROM reviews WHERE id {_THESE}", [json.dumps(reviews)])
    return [{"review": row["id"], "sha256": audit.review_sha256(row)} for row in changed]


def _pruned(value: Any, names: set[str]) -> Any:
    """Returns a JSON value without the list entries that are or contain one of the names."""
    if isinstance(value, dict):
        return {key: _pruned(inside, names) for key, inside in value.items()}
    if isinstance(value, list):
        return [_pruned(inside, names) for inside in value if not names & {*_texts(inside)}]
    return value


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return [text for item in inside for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def _learnt(store: Store, cases: list[Row]) -> list[Row]:
    """Returns the runs trained on the cases, on masks of them or on their studies, and runs that build on such runs."""
    ids, taught = {row["id"] for row in cases}, {row["study"] for row in cases if row["split"] != "test"}
    digests = {row["sha256"] for row in cases}
    rows = [r for r in runs.list_runs(store, archived=None) if r["status"] not in ("new", "queued")]
    learnt: dict[str, Row] = {}
    while True:
        before = len(learnt)
        for run in rows:
            config, marks = json.dumps(run["config"]), run["config"].get("marks") or {}
            if (
                run["study"] in taught
                or digests & {*run["config"].get("medmix", {}).get("matched", ())}
                or ids & {*marks.get("cases", []), *marks.get("normals", [])}
                or any(f'"{study}"' in config for study in taught)  # MedMix pastes lesions from the study
                or run["parent"] in learnt
                or any(other in config for other in learnt)
            ):
                learnt[run["id"]] = run
        if len(learnt) == before:
            return list(learnt.values())


def _maps(store: Store, studies: list[str]) -> list[Row]:
    """Returns the cluster maps of the studies, and maps of runs or projections that use images of the studies."""
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
    home = store.home.path
    ids = [r["id"] for r in store.query("SELECT id, study FROM runs") if r["study"] in studies]
    paths = [home / "reports" / study for study in studies]
    paths += [path for run in ids for path in (home / "sheets" / f"{run}.png", home / "exports" / run)]
    return [path for path in paths if path.exists()]


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():  # another process has just written a file there
            shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _without_lines(table: Path, paths: set[str]) -> None:
    with table.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))
    remaining = [row for row in rows if not paths & {str(table.parent / cell) for cell in row}]
    if len(remaining) < len(rows):
        with table.open("w", newline="", encoding="utf-8") as out:
            csv.writer(out, lineterminator="\n").writerows(remaining)


def _mark(store: Store, cases: list[Row]) -> None:
    """Notes on each run that was trained on the cases that the run should be repeated without them."""
    for run in _learnt(store, cases):
        count = len(cases) + (run["summary"].get("erased") or {}).get("cases", 0)
        opening = (
            f"Learnt from {count} {'case' if count == 1 else 'cases'} that {'was' if count == 1 else 'were'} erased: "
        )
        note = "\n".join(line for line in run["note"].splitlines() if not line.startswith("Learnt from "))
        runs.update_run(
            store, run["id"], summary={**run["summary"], "erased": {"cases": count, "at": now()}},
            note=f"{note}\n{opening}it cannot be repeated exactly any more. Repeat trains without them.".strip(),
        )  # fmt: skip


def _fingerprint(store: Store, study: str) -> None:
    """Recomputes the study's fingerprint from the remaining cases, as an import does."""
    rows = store.query('SELECT sha256, frame, split, label FROM cases WHERE study = ? ORDER BY "row"', [study])
    text = "\n".join(f"{r['sha256']} {r['frame']} {r['split']} {r['label']}" for r in rows)
    store.execute("UPDATE studies SET fingerprint = ? WHERE id = ?", [hashlib.sha256(text.encode()).hexdigest(), study])


def words(traced: Trace) -> list[str]:
    """Describes a trace in sentences: what is deleted, what should be trained again, and what cannot be deleted."""

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
    lines = [f"Erasing deletes {', '.join(goes)}."]
    if traced.prepared or traced.maps or traced.made:
        lines.append(
            "Erasing also deletes data that are recomputed on request: prepared images of "
            f"{', '.join(traced.prepared) or 'none'}, {some(len(traced.maps), 'cluster map')}"
            + (f", {', '.join(traced.made)}." if traced.made else ".")
        )
    if traced.backups:
        lines.append(
            f"Erasing deletes {some(traced.backups, 'backup')}, once a new one is verified. Delete copies elsewhere."
        )
    if traced.comments:
        lines.append(f"Erasing replaces the name in {some(traced.comments, 'comment')} on other cases.")
    if traced.runs:
        named = ", ".join(f"{run['name']} ({run['id']})" for run in traced.runs)
        lines.append(f"Runs trained on these cases are kept. Train them again without these cases: {named}.")
    if traced.outside:
        lines.append(f"Not deleted, because the file is outside this home: {', '.join(traced.outside)}.")
    if traced.left:
        lines.append(f"{some(traced.left, 'earlier export')} cannot be recalled (“export” in the audit trail).")
    return lines
