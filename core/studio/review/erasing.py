"""Erases a patient's data from a home (the studio's data folder); lists models trained on it and copies out of reach.

An erasure is a row of the table `erasures`, with a list of what to delete and the next of STEPS. Each step can be
repeated, so an interrupted erasure continues automatically (`go_on`, when the studio starts and once a day). Trained
models stay, with a note: weights cannot forget a case, so they have to be trained again without it.
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

# Free text by people, programs and imports, which may name a file or the patient.
_TEXTS = (
    ("reviews", "comment"), ("findings", "comment"), ("lesion_masks", "note"), ("logs", "line"), ("jobs", "message"),
    ("jobs", "error"), ("runs", "note"), ("watches", "message"), ("presets", "note"),
)  # fmt: skip
SHORTEST = 4  # characters of a name that is searched in texts and files: shorter ones occur everywhere
ERASED = audit.ERASED
_THESE = "IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True)
class Trace:
    """A patient's data in a home, which an erasure deletes. outside: image files outside the home, which stay.

    runs: [{"id", "name", "study"}] trained on the patient's cases. maps: feature maps that use their studies. made:
    reports, sheets and exported models of these studies. comments: number of comments on other cases that name the
    patient. left: number of exports of the studies. backups: number of copies of the database in the home.
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
    """Returns the cases of a patient in all studies, and all cases with the same content.

    The patient is given by name, as in the import, or by the id of a case. If the patient of that case is unknown, only
    the case and its volume or recording are returned. Raises NotFound if there is no such case.
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
        raise NotFound("There is no case of this patient: give the name as the import had it, or the number of a case.")
    return rows


def trace(store: Store, cases: list[Row], patient: str = "") -> Trace:
    """Lists the data of these cases in a home. patient: the patient's name, which is also searched in comments."""
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
    """Deletes the cases with everything that belongs to them, and refuses their images from now on (`ingest.erased`).

    Args:
        store: The home's database.
        cases: The result of `cases_of`.
        by: Name of the person who asked for it.
        patient: The patient's name, which is then searched in texts as well.

    Returns:
        {"trace", "still": files of the home that still contain a name of the cases or the patient, "open": sentences on
        what failed and is retried automatically}.

    Raises:
        ValueError: While a job is running.
    """
    if at_work := stopping.at_work(store):
        raise ValueError(f"Job {at_work[0]['id']} runs or waits: stop all jobs first (`jobs stop`), then erase.")
    traced, words = trace(store, cases, patient), _words(cases, patient)
    _ask(store, cases, by, words)
    return {"trace": traced.to_dict(), "open": go_on(store), "still": still(store, words)}


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
    with store.write() as db:  # from now on every import refuses them
        db.conn.executemany("INSERT OR IGNORE INTO erased (digest) VALUES (?)", [(digest,) for digest in digests])
        db.execute(query, [by, now(), json.dumps(request)])


def go_on(store: Store, by: str = "studio") -> list[str]:
    """Continues all unfinished erasures; returns a sentence for each that failed and will be retried.

    Erased images that have returned with a restored backup are erased again.
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
    gone = {row["digest"] for row in store.query("SELECT digest FROM erased")}
    digests = erased.digests(store, (row["sha256"] for row in hashed))
    return [row for row, digest in zip(hashed, digests, strict=True) if digest in gone]


def _finish(store: Store, number: int) -> None:
    names = [*STEPS, None]
    while (row := store.first("SELECT * FROM erasures WHERE id = ?", [number]))["step"] is not None:
        STEPS[row["step"]](store, number, json.loads(row["request"] or "{}"))
        following = names[names.index(row["step"]) + 1]
        done = now() if following is None else None
        store.execute("UPDATE erasures SET step = ?, done = ? WHERE id = ? AND step = ?",
                      [following, done, number, row["step"]])  # fmt: skip


# The steps, in order. Each may be interrupted anywhere and started again.


def _rows(store: Store, number: int, request: Row) -> None:
    """Deletes the rows, in one transaction with the audit event, the studies' fingerprints and the notes on runs."""
    ids = json.dumps(request["cases"])
    with store.write() as db:
        if store.one("SELECT 1 FROM erasures WHERE id = ? AND step = 'rows'", [number]) is None:
            return  # another process was faster
        cases = store.query(f"SELECT * FROM cases WHERE id {_THESE}", [ids])
        _mark(store, cases)
        gone = {
            name: [
                row["id"] for row in store.query(f"SELECT id FROM {table} WHERE case_id {_THESE} ORDER BY id", [ids])
            ]
            for name, table in {"reviews": "reviews", "masks": "lesion_masks"}.items()
        }
        db.execute(f"DELETE FROM undone WHERE review_id {_THESE}", [json.dumps(gone["reviews"])])
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
        after = {"erasure": number, "cases": len(cases), "studies": request["studies"], **gone, "comments": comments}
        by = store.first("SELECT by FROM erasures WHERE id = ?", [number])["by"]
        audit.record(store, by, "erase", after=after | {"sealed": audit.sealed_again(store)})
        db.execute("UPDATE erasures SET step = 'files' WHERE id = ?", [number])


def _files(store: Store, number: int, request: Row) -> None:
    """Deletes the home's own images, and uploads with the same content."""
    used = store.query(f"SELECT path FROM cases WHERE path {_THESE}", [json.dumps(request["paths"])])
    for path in {*request["paths"]} - {row["path"] for row in used}:
        if Path(path).is_relative_to(store.home.path):
            Path(path).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # the folder holds other images
                Path(path).parent.rmdir()
    for file in [f for f in store.home.cache.glob("dropped/*/**/*") if f.is_file()]:
        if file_sha256(file) in request["contents"]:
            file.unlink(missing_ok=True)
    for table in (store.home.path / "recipes").glob("*.csv"):
        _without_lines(table, {*request["paths"]})


def _caches(store: Store, number: int, request: Row) -> None:
    """Deletes what was computed from the images: prepared arrays, maps, reports, sheets. A process that recomputes them
    at this moment reads rows without the images, or finds out at the end (`ingest.cache`)."""
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
    """Deletes the request, and rewrites the database so that its free pages and its log no longer hold erased data."""
    store.execute("UPDATE erasures SET request = NULL WHERE id = ?", [number])
    store.db.conn.execute("VACUUM")
    if store.db.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        raise sqlite3.OperationalError("the database is being read, and its log still holds what was erased")


def _backups(store: Store, number: int, request: Row) -> None:
    """Replaces all backups by a new one; none is deleted before the new one was read back successfully."""
    if any(store.home.backups.glob("*.sqlite*")):
        newest = store.first("SELECT backup FROM erasures WHERE id = ?", [number])["backup"]
        if newest is None or not (store.home.backups / newest).exists():
            newest = backup.backup(store.home).file
            store.execute("UPDATE erasures SET backup = ? WHERE id = ?", [newest, number])
        backup.delete_before(store.home.backups, newest)


STEPS: dict[str, Callable[[Store, int, Row], None]] = {
    "rows": _rows, "files": _files, "caches": _caches, "forget": _forget, "backups": _backups,
}  # fmt: skip


def still(store: Store, words: Iterable[str]) -> list[str]:
    """Lists the files of the home whose name or content still contains one of the words."""
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
    """Lists the files in watched folders that these cases came from, even if the home has a copy."""
    names, studies = ({key(row) for row in cases} for key in (lambda r: Path(r["path"]).name, lambda r: r["study"]))
    rows = store.query("SELECT study, path FROM incoming WHERE state = 'taken'")
    return sorted({row["path"] for row in rows if row["study"] in studies and Path(row["path"]).name in names})


def _count(store: Store, table: str, ids: list[int]) -> int:
    return int(store.first(f"SELECT count(*) AS n FROM {table} WHERE case_id {_THESE}", [json.dumps(ids)])["n"])


def _words(cases: Sequence[Row], patient: str) -> list[str]:
    """Collects the names, paths and hashes by which texts may name a case, longest first: paths are replaced whole."""
    names = {patient.strip(), *(row[name] for row in cases for name in ("name", "path", "sha256") if row[name])}
    names |= {Path(row["path"]).name for row in cases}
    return sorted(names - {""}, key=len, reverse=True)


def _pattern(words: Sequence[str]) -> re.Pattern[str] | None:
    """Returns a pattern that finds the words, but not inside longer words; None if all are too short for a search."""
    long = "|".join(re.escape(word) for word in words if len(word) >= SHORTEST)
    return re.compile(rf"(?<![^\W_])(?:{long})(?![^\W_])") if long else None


def _without_words(store: Store, words: Sequence[str]) -> list[Row]:
    """Removes the words from free text; returns the reviews that changed: [{"review", "sha256"}]."""
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
    """Returns a report without the entries of its lists that are, or contain, one of the names."""
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
    """Returns runs that have learnt from these cases or from marks on them, and runs that build on such a run."""
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
                or any(f'"{study}"' in config for study in taught)  # its images are donors of lesions
                or run["parent"] in learnt
                or any(other in config for other in learnt)
            ):
                learnt[run["id"]] = run
        if len(learnt) == before:
            return list(learnt.values())


def _maps(store: Store, studies: list[str]) -> list[Row]:
    """Returns feature maps of the studies, of runs that paste their lesions, and maps that show their images."""
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
    """Lists reports, sheets, exported models and file lists that were made from the studies."""
    home = store.home.path
    ids = [r["id"] for r in store.query("SELECT id, study FROM runs") if r["study"] in studies]
    paths = [home / "reports" / study for study in studies]
    paths += [path for run in ids for path in (home / "sheets" / f"{run}.png", home / "exports" / run)]
    return [path for path in paths if path.exists()]


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():  # another process has just written there
            shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _without_lines(table: Path, paths: set[str]) -> None:
    """Removes the lines of some files from a CSV of paths."""
    with table.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))
    remaining = [row for row in rows if not paths & {str(table.parent / cell) for cell in row}]
    if len(remaining) < len(rows):
        with table.open("w", newline="", encoding="utf-8") as out:
            csv.writer(out, lineterminator="\n").writerows(remaining)


def _mark(store: Store, cases: list[Row]) -> None:
    """Notes on the runs trained on the cases that they should be trained again."""
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
    """Updates the study's fingerprint, as an import computes it, from the remaining cases."""
    rows = store.query('SELECT sha256, frame, split, label FROM cases WHERE study = ? ORDER BY "row"', [study])
    text = "\n".join(f"{r['sha256']} {r['frame']} {r['split']} {r['label']}" for r in rows)
    store.execute("UPDATE studies SET fingerprint = ? WHERE id = ?", [hashlib.sha256(text.encode()).hexdigest(), study])


def words(traced: Trace) -> list[str]:
    """Describes a trace in sentences: what is deleted, what to train again, and what this home cannot delete."""

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
            "Erasing also deletes what is made again on request: prepared images of "
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
        lines.append(f"Trained on these cases, and kept; train again without them: {named}.")
    if traced.outside:
        lines.append(f"Not deleted, because the file is outside this home: {', '.join(traced.outside)}.")
    if traced.left:
        lines.append(
            f"Exported earlier and cannot be recalled: {some(traced.left, 'export')} (“export” in the audit trail)."
        )
    return lines
