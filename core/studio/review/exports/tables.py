"""Exports of decisions, scores and findings as CSV tables, and the remapping of names in all exports."""

from __future__ import annotations

import csv
import functools
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.ingest import burned_in, volumes
from core.studio.ingest.names import folded, stem
from core.studio.ingest.reader import printable
from core.studio.review import people
from core.studio.review.cases import scored_runs
from core.studio.runs.operating import in_effect, level_of
from core.studio.runs.readings import NOT_JUDGED

# De-identification remaps names, identifiers and dates with a secret key, in the same way in all exports of a study.

UID_ROOT = "2.25."  # UIDs derived from a UUID-sized number (DICOM PS3.5, B.2)


def names_for(store: Store, study: str, reader: str, single_user: bool, wanted: bool | None = None) -> Names:
    """Returns the translation of names for an export by a reader.

    wanted: Whether to use real names. Defaults to real names for administrators and remapped names for others.

    Raises NotAllowed if `wanted` is True and the reader may not administer.
    """
    if wanted:
        people.demand(store, reader, single_user, "administer")
    may = people.rights(store, reader, single_user)["administer"]
    return Names(store, study, keep=may if wanted is None else wanted)


class Names:
    """Translates the names, identifiers and times of a study for exported files.

    keep: Whether to keep real names, identifiers and times instead of remapping them.
    """

    def __init__(self, store: Store, study: str, keep: bool = False):
        self.keep, self.store, self.study = keep, store, study
        if not keep:
            secret = store.setting(f"deidentify:{study}")
            if secret is None:
                secret = secrets.token_hex(32)
                store.set_setting(f"deidentify:{study}", secret)
            self._key = bytes.fromhex(secret)
            # One shift for the whole study, by up to ten years into the past, preserves intervals.
            self._shift = timedelta(days=-(1 + int.from_bytes(self._digest("shift")[:4], "big") % 3650))

    def _digest(self, text: str) -> bytes:
        return hmac.new(self._key, text.encode(), hashlib.sha256).digest()

    def case(self, case: dict) -> str:
        """Returns the exported name of a case, which is unique in the study and usually has no file suffix.

        Equal real names are distinguished by suffix, folder or id. The frame "exam.mp4 #7" becomes "exam #7".
        """
        if self.keep:
            return self._longer.get(case["id"]) or _bare(case["name"])
        return f"case-{self._digest('case ' + str(case['id'])).hex()[:12]}"

    @functools.cached_property
    def _longer(self) -> dict[int, str]:
        """Longer names, by case id, of the cases that would otherwise share a name."""
        alike: dict[str, list[dict]] = {}
        for case in self.store.query("SELECT id, name, path FROM cases WHERE study = ? ORDER BY id", [self.study]):
            alike.setdefault(folded(_bare(case["name"])), []).append(case)
        longer, used = dict[int, str](), set(alike)
        for several in (cases for cases in alike.values() if len(cases) > 1):
            options = [[case["name"] for case in several]]
            folders = [case["path"].replace("\\", "/").strip("/").split("/")[:-1] for case in several]
            for depth in range(1, 1 + max(map(len, folders))):
                above = zip(folders, several, strict=True)
                options.append(["/".join([*names[-depth:], _bare(case["name"])]) for names, case in above])
            options.append([f"{_bare(case['name'])} ({case['id']})" for case in several])
            free = (option for option in options if len({*map(folded, option)} - used) == len(option))
            option = list(map(printable, next(free, options[-1])))
            used.update(map(folded, option))
            longer |= dict(zip((case["id"] for case in several), option, strict=True))
        return longer

    def file(self, name: str) -> str:
        """Returns the name of an image or folder outside the study, remapped unless `keep`."""
        return name if self.keep else f"image-{self._digest('file ' + name).hex()[:12]}"

    def recording(self, case: dict) -> str:
        """Returns the exported name of the recording or volume to which a frame or slice belongs."""
        if self.keep:
            return case["series"].split()[0] if case["series"] else Path(case["path"]).stem
        return f"recording-{self._digest('recording ' + str(case['series'] or case['sha256'])).hex()[:12]}"

    def reader(self, name: str | None) -> str | None:
        """Returns a reader's name, remapped unless `keep`. None stays None."""
        return name if self.keep or name is None else f"reader-{self._digest('reader ' + name).hex()[:6]}"

    def uid(self, uid: str) -> str:
        """Returns a DICOM UID, remapped unless `keep`."""
        return uid if self.keep else UID_ROOT + str(int.from_bytes(self._digest("uid " + uid)[:16], "big"))

    def when(self, text: str | None) -> str | None:
        """Returns an ISO time, shifted by a secret number of days unless `keep`. None and "" stay unchanged."""
        if self.keep or not text:
            return text
        moved = datetime.fromisoformat(text.replace("Z", "+00:00")) + self._shift
        return moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def date(self, text: str) -> str:
        """Returns an ISO date, shifted by a secret number of days unless `keep`."""
        return text if self.keep else (datetime.fromisoformat(text) + self._shift).date().isoformat()

    def day(self, text: str) -> str:
        """Returns a DICOM date YYYYMMDD, shifted as by `date`. Unless `keep`, an invalid date becomes ""."""
        if self.keep:
            return text
        try:
            return (datetime.strptime(text, "%Y%m%d") + self._shift).strftime("%Y%m%d")
        except ValueError:
            return ""


def _bare(name: str) -> str:
    file, sign, number = name.rpartition(" #")
    return f"{stem(file)} #{number}" if sign and number.isdigit() else stem(name)


def recorded(store: Store, study: str, by: str, names: Names, format: str, cases: Iterable[int], **counts: int) -> dict:
    """Records an export of the given cases in the audit trail, and returns the cases with likely burned-in text.

    format: Name of the export format.
    counts: Numbers that are recorded with the export, such as the number of files.

    Returns {"cases": ids of the cases with likely burned-in text}.
    """
    text = burned_in.among(store, study, list(dict.fromkeys(cases)))
    details = {"format": format, **counts, "named": names.keep, "burned_in": len(text["cases"])}
    audit.record(store, by, "export", study=study, after=details)
    return text


def _written(
    store: Store, study: str, target: Path, by: str, names: Names, format: str, columns: tuple[str, ...],
    rows: list[dict],
) -> dict:  # fmt: skip
    """Writes columns of the rows as a CSV file, records the export and returns the result of `export_csv`."""
    with Path(target).open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(columns)
        out.writerows([cell(row[column]) for column in columns] for row in rows)
    text = recorded(store, study, by, names, format, (row["number"] for row in rows), rows=len(rows))
    return {"rows": len(rows), "file": str(target), "burned_in": text}


COLUMNS = (
    "case", "number", "split", "reader", "stage", "decision", "comment", "created", "seconds", "run", "score",
    "percentile", "flagged", "label", "has_mask", "recording", "frame", "burned_in_text", "tags",
    "steady", "views_flagged", "score_sd", "lesion_head", "padim", NOT_JUDGED,
)  # fmt: skip


def export_csv(
    store: Store, study: str, target: Path, by: str, keep_names: bool = False, run: str | None = None
) -> dict:
    """Writes a study's current decisions as a CSV file, with one line for each case, reader and stage.

    keep_names: Whether to export real names and times instead of remapped ones.
    run: Id of the run whose scores are exported. Defaults to the run that the reader saw, else the study's default run.

    Returns {"rows": number of lines, "file", "burned_in": cases with likely burned-in text, as {"cases": ids}}. In the
    file, "number" is the id of the case, and "frame" the 1-based frame number or the slice's instance number.
    """
    names, scored = Names(store, study, keep_names), [r["id"] for r in scored_runs(store, study)]
    rows = store.query(
        "SELECT v.*, c.id AS number, c.name, c.path, c.sha256, c.series, c.split, c.label, c.tags, "
        "coalesce(r.score_roi, r.score) AS score, "
        "coalesce(r.percentile_roi, r.percentile) AS percentile, coalesce(r.flagged_roi, r.flagged) AS flagged, "
        "r.extra, EXISTS (SELECT 1 FROM lesion_masks m WHERE m.case_id = c.id) AS has_mask FROM current_reviews k "
        "JOIN reviews v ON v.id = k.review_id JOIN cases c ON c.id = v.case_id "
        "LEFT JOIN readings r ON r.case_id = c.id AND r.run = coalesce(?, v.run, ?) WHERE c.study = ? ORDER BY v.id",
        [run, next(iter(scored), None), study],
    )
    numbers = [row["number"] for row in rows]
    marked, frames = set(burned_in.among(store, study, numbers)["cases"]), volumes.parts(store, study)
    for row in rows:
        row |= {
            "case": names.case({"id": row["number"], "name": row["name"]}),
            "run": run or row["run"] or next(iter(scored), None),
            "reader": names.reader(row["reader"]),
            "created": names.when(row["created"]),
            "recording": names.recording(row) if row["number"] in frames else "",
            "frame": frames.get(row["number"]),
            "burned_in_text": int(row["number"] in marked),
            "tags": "; ".join(json.loads(row["tags"])),
            **_certainty(row["extra"]),
        }
    return _written(store, study, target, by, names, "csv", COLUMNS, rows)


SCORES = (
    "case", "number", "split", "label", "run", "detector", "score", "threshold", "percentile", "flagged",
    "operating_point", NOT_JUDGED, "tags",
)  # fmt: skip


def export_scores(store: Store, study: str, target: Path, by: str, keep_names: bool = False) -> dict:
    """Writes the scores of all runs as a CSV file, with one line for each case and run.

    The column "threshold" is the score above which the run flags a case. Returns the same dictionary as `export_csv`.
    """
    names, runs = Names(store, study, keep_names), {r["id"]: r for r in scored_runs(store, study)}
    points = in_effect(store, *runs)
    levels = {run: level_of(store, run, point) for run, point in points.items()}
    rows = store.query(
        "SELECT c.id, c.id AS number, c.name, c.split, c.label, c.tags, r.run, "
        "coalesce(r.score_roi, r.score) AS score, "
        "coalesce(r.percentile_roi, r.percentile) AS percentile, coalesce(r.flagged_roi, r.flagged) AS flagged, "
        f"coalesce(json_extract(r.extra, '$.{NOT_JUDGED}'), 0) AS {NOT_JUDGED} "
        "FROM json_each(?) j JOIN readings r ON r.run = j.value JOIN cases c ON c.id = r.case_id AND c.study = ? "
        "ORDER BY c.id, j.key",
        [json.dumps(list(runs)), study],
    )
    for row in rows:
        run = row["run"]
        row |= {"case": names.case(row), "detector": runs[run]["title"], "operating_point": points[run].source}
        row |= {"tags": "; ".join(json.loads(row["tags"])), "threshold": levels[run]}
    return _written(store, study, target, by, names, "scores", SCORES, rows)


FINDINGS = (
    "case", "number", "split", "kind", "label", "comment", "x0", "y0", "x1", "y1", "mask_version", "reader", "created",
)  # fmt: skip


def export_findings(store: Store, study: str, target: Path, by: str, keep_names: bool = False) -> dict:
    """Writes the findings and tags of a study's cases as a CSV file. Returns the same dictionary as `export_csv`.

    A line is a finding (kind "point", "box", "mask" or "case") or a tag of a case (kind "tag"). Corners of boxes are in
    pixels, and the two corners of a point are equal. "mask_version" is the version of the finding's lesion mask.
    """
    names = Names(store, study, keep_names)
    rows = store.query(
        "WITH placed AS (SELECT *, json_extract(box, '$[0]') AS x0, json_extract(box, '$[1]') AS y0, "
        "json_extract(box, '$[2]') AS x1, json_extract(box, '$[3]') AS y1 FROM findings), "
        "said AS (SELECT case_id, CASE WHEN x0 IS NULL THEN iif(mask_version IS NULL, 'case', 'mask') "
        "WHEN x0 = x1 AND y0 = y1 THEN 'point' ELSE 'box' END AS kind, label, comment, x0, y0, x1, y1, mask_version, "
        "reader, created, id AS turn FROM placed UNION ALL SELECT t.id, 'tag', j.value, '', NULL, NULL, NULL, NULL, "
        "NULL, NULL, NULL, 0 FROM cases t JOIN json_each(t.tags) j WHERE t.study = :study) "
        "SELECT c.id, c.id AS number, c.name, c.split, said.* FROM cases c JOIN said ON said.case_id = c.id "
        "WHERE c.study = :study ORDER BY c.id, turn",
        {"study": study},
    )
    for row in rows:
        row |= {"case": names.case(row), "reader": names.reader(row["reader"]), "created": names.when(row["created"])}
    return _written(store, study, target, by, names, "findings", FINDINGS, rows)


def _certainty(extra: str | None) -> dict:
    detail = json.loads(extra or "{}")
    steady = detail.get("steady")
    views = sum(steady["flagged"]) if steady else None
    return {
        "steady": "" if steady is None else "yes" if views in (0, len(steady["flagged"])) else "no",
        "views_flagged": "" if steady is None else f"{views} of {len(steady['flagged'])}",
        "score_sd": "" if steady is None else steady["sd"],
        "lesion_head": detail.get("head", ""),
        "padim": detail.get("padim", ""),
        NOT_JUDGED: detail.get(NOT_JUDGED, 0) if extra else "",
    }


def cell(value):
    """Returns a value as a CSV cell. Text that a spreadsheet would run as a formula gets a leading apostrophe."""
    if not isinstance(value, str) or not value:
        return value
    first = value.lstrip().lstrip("\ufeff\u200b\x00")[:1]
    return f"'{value}" if value[0] in "\t\r\n" or (first and first in "=+-@\uff1d\uff0b\uff0d\uff20") else value
