"""Exported tables: which names they carry, their columns, and how their cells are written."""

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

# De-identification: names, identifiers and dates are remapped, always in the same way for one study and secret.

UID_ROOT = "2.25."  # UIDs derived from a UUID-sized number (DICOM PS3.5, B.2)


def names_for(store: Store, study: str, reader: str, single_user: bool, wanted: bool | None = None) -> Names:
    """Returns the names that a file for `reader` may carry; every export calls this.

    wanted: True for real names, False for remapped ones, None for real names if the reader may have them. Raises
    NotAllowed if `wanted` is True and the reader may not administer.
    """
    if wanted:
        people.demand(store, reader, single_user, "administer")
    may = people.rights(store, reader, single_user)["administer"]
    return Names(store, study, keep=may if wanted is None else wanted)


class Names:
    """The names, identifiers and times of a study in exported files: remapped or, with `keep=True`, unchanged."""

    def __init__(self, store: Store, study: str, keep: bool = False):
        self.keep, self.store, self.study = keep, store, study
        if not keep:
            secret = store.setting(f"deidentify:{study}")
            if secret is None:
                secret = secrets.token_hex(32)
                store.set_setting(f"deidentify:{study}", secret)
            self._key = bytes.fromhex(secret)
            # One shift for the whole study preserves intervals; up to ten years back.
            self._shift = timedelta(days=-(1 + int.from_bytes(self._digest("shift")[:4], "big") % 3650))

    def _digest(self, text: str) -> bytes:
        return hmac.new(self._key, text.encode(), hashlib.sha256).digest()

    def case(self, case: dict) -> str:
        """Returns a case's name without the file suffix; a frame keeps its number: 'exam.mp4 #7' becomes 'exam #7'.

        Names are unique within a study, ignoring case: names that would clash are prefixed with their folders.
        """
        if self.keep:
            return self._longer.get(case["id"]) or _bare(case["name"])
        return f"case-{self._digest('case ' + str(case['id'])).hex()[:12]}"

    @functools.cached_property
    def _longer(self) -> dict[int, str]:
        """Longer names for the cases that would otherwise share a name."""
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
        """Returns the name of an image or folder that is not a case of the study."""
        return name if self.keep else f"image-{self._digest('file ' + name).hex()[:12]}"

    def recording(self, case: dict) -> str:
        """Returns the name of a frame's recording or a slice's volume; if names are kept, its series or file name."""
        if self.keep:
            return case["series"].split()[0] if case["series"] else Path(case["path"]).stem
        return f"recording-{self._digest('recording ' + str(case['series'] or case['sha256'])).hex()[:12]}"

    def reader(self, name: str | None) -> str | None:
        """Returns a reader's name as the file carries it; None stays None."""
        return name if self.keep or name is None else f"reader-{self._digest('reader ' + name).hex()[:6]}"

    def uid(self, uid: str) -> str:
        """Remaps a DICOM UID, unless names are kept."""
        return uid if self.keep else UID_ROOT + str(int.from_bytes(self._digest("uid " + uid)[:16], "big"))

    def when(self, text: str | None) -> str | None:
        """Shifts an ISO time, unless names are kept."""
        if self.keep or not text:
            return text
        moved = datetime.fromisoformat(text.replace("Z", "+00:00")) + self._shift
        return moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def date(self, text: str) -> str:
        """Shifts an ISO date, unless names are kept."""
        return text if self.keep else (datetime.fromisoformat(text) + self._shift).date().isoformat()

    def day(self, text: str) -> str:
        """Shifts a DICOM date YYYYMMDD, unless names are kept; '' for anything else."""
        if self.keep:
            return text
        try:
            return (datetime.strptime(text, "%Y%m%d") + self._shift).strftime("%Y%m%d")
        except ValueError:
            return ""


def _bare(name: str) -> str:
    """Returns the name of a case without its file's suffix."""
    file, sign, number = name.rpartition(" #")
    return f"{stem(file)} #{number}" if sign and number.isdigit() else stem(name)


def recorded(store: Store, study: str, by: str, names: Names, format: str, cases: Iterable[int], **counts: int) -> dict:
    """Records an export of these cases in the audit trail; returns what `burned_in.among` reports on them."""
    text = burned_in.among(store, study, list(dict.fromkeys(cases)))
    details = {"format": format, **counts, "named": names.keep, "burned_in": len(text["cases"])}
    audit.record(store, by, "export", study=study, after=details)
    return text


def _written(
    store: Store, study: str, target: Path, by: str, names: Names, format: str, columns: tuple[str, ...],
    rows: list[dict],
) -> dict:  # fmt: skip
    """Writes these columns of the rows as CSV and records the export; returns {"rows", "file", "burned_in"}."""
    with Path(target).open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(columns)
        out.writerows([cell(row[column]) for column in columns] for row in rows)
    text = recorded(store, study, by, names, format, (row["number"] for row in rows), rows=len(rows))
    return {"rows": len(rows), "file": str(target), "burned_in": text}


# Decisions as CSV, one line for each review that counts.

COLUMNS = (
    "case", "number", "split", "reader", "stage", "decision", "comment", "created", "seconds", "run", "score",
    "percentile", "flagged", "label", "has_mask", "recording", "frame", "burned_in_text", "tags",
    "steady", "views_flagged", "score_sd", "lesion_head", "padim", NOT_JUDGED,
)  # fmt: skip


def export_csv(
    store: Store, study: str, target: Path, by: str, keep_names: bool = False, run: str | None = None
) -> dict:
    """Writes a study's decisions as CSV, one line for each review that counts; returns {"rows", "file", "burned_in"}.

    Score, percentile and flag are from `run`, else from the run the reader saw, else from the run that Review opens
    with. The frames of a recording count from 1; a slice of a volume has its instance number. `number` is the case's
    number on the page, in every table.
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
    marked, several = set(burned_in.among(store, study, numbers)["cases"]), volumes.parts(store, study)
    for row in rows:
        row |= {
            "case": names.case({"id": row["number"], "name": row["name"]}),
            "run": run or row["run"] or next(iter(scored), None),
            "reader": names.reader(row["reader"]),
            "created": names.when(row["created"]),
            "recording": names.recording(row) if row["number"] in several else "",
            "frame": several.get(row["number"]),
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
    """Writes the scores of all runs as CSV, one line for each case and run, ordered by case.

    threshold: the score above which the run's operating point flags a case. Returns {"rows", "file", "burned_in"}.
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
    """Writes the findings and tags of a study's cases as CSV; returns {"rows", "file", "burned_in"}.

    A line is a finding (kind "point", "box", "mask" or "case") or a tag of a case (kind "tag"). Corners are in the
    image's pixels; both corners of a point are the same. mask_version: the version of the finding's lesion mask.
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
    """Returns the columns on steadiness over views and on the scores of a combined detector's members; empty if
    unknown."""
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
    """Returns a value for a cell of a CSV; text that a spreadsheet would run as a formula gets a leading apostrophe."""
    if not isinstance(value, str) or not value:
        return value
    first = value.lstrip().lstrip("\ufeff\u200b\x00")[:1]
    return f"'{value}" if value[0] in "\t\r\n" or (first and first in "=+-@\uff1d\uff0b\uff0d\uff20") else value
