"""The tables and columns in a bundle, derived from the database schema, and the values that each column may contain.

Every table and column is exported unless it is listed in `STAYS`, which gives the reason. A row belongs to a study if
it refers to the study, directly or through other tables. On import, each value is checked against its column's SQL
type, or against `KINDS` if the column is listed there, and each reference is replaced by the new id of its row.
"""

from __future__ import annotations

import fnmatch
import functools
import json
import math
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Len
from pydantic import TypeAdapter, ValidationError

from core.engine.config import BadConfig
from core.engine.registry import UnknownName
from core.studio.clusters.config import MapConfig
from core.studio.db.foreign import Count, Integer, Name, Number, Record, Refused, Text, bounded, fault, parts_of
from core.studio.db.home import Home
from core.studio.db.store import Row, Store
from core.studio.medmix.presets import checked as checked_preset
from core.studio.runs import foreign_runs
from core.studio.trials.options import TrialPlan

STAYS = {  # tables, or columns of tables, that are not exported, with the reason
    "answered": "answers stored for requests that are sent twice",
    "case_tags": "filled by a trigger from the cases",
    "case_votes": "filled by a trigger from the reviews",
    "cluster_maps.job": "a job of this home",
    "cluster_projected": "the images may belong to other studies",
    "current_reviews": "filled by a trigger from the reviews",
    "eras*": "data that this home was asked to erase",
    "events": "exported as the rows of `foreign_events`, without the content of events of other studies",
    "foreign_events": "events of other homes, which store them themselves",
    "incoming": "files in a folder of this machine",
    "jobs": "work of this machine",
    "matches": "work of this machine",
    "mask_drafts": "unsaved drawings",
    "neutral_*": "drawn at random for readers with an account here",
    "owners": "accounts of this home",
    "reader_words": "filled by a trigger from the reviews",
    "readers": "accounts with passwords",
    "roots": "folders of this machine",
    "runs.binned": "runs in the bin are not exported",
    "runs.folder": "a folder in this home",
    "sessions": "sessions of readers who are signed in",
    "sqlite_*": "internal tables of SQLite",
    "step_times": "work of this machine",
    "studies.binned": "an imported study is not in the bin",
    "studies.folder": "a folder of this machine",
    "tokens": "tokens of programs that sign in here",
    "watches": "folders of this machine",
}


class Rejected(Record):
    """File that was rejected on import, or whose header is unusual, with the reason."""

    path: Text
    reason: Text


class Duplicate(Record):
    """Training image and test image with the same or nearly the same content."""

    kind: Name
    train: Text
    test: Text
    correlation: Number


class Straddling(Record):
    """Patient with both training and test images; the fields list the names of these images."""

    train: list[Text]
    test: list[Text]


class Report(foreign_runs.Lenient):
    """Report written when the study's images were first imported; see `ImportReport` for the fields."""

    study: Name
    accepted: Count
    rejected: list[Rejected]
    duplicates: list[Duplicate]
    layout: Name
    masks: Count
    counts: dict[Name, Count]
    burned_in: list[Text]
    patients: Count
    straddling: list[Straddling]
    copies: Text = ""
    odd: list[Rejected] = []


SETTINGS: dict[str, Any] = {  # exported settings KEY:STUDY; the key for de-identified names and times are not exported
    "adopted": Name | None, "blind": bool, "import": Report, "kind": Name, "labels": list[Name],
    "tags": list[Name],
}  # fmt: skip
LINKS = {
    "study": "studies",
    "run": "runs",
    "case_id": "cases",
    "review_id": "reviews",
    "trial_cases.mask": "lesion_masks",
}  # columns that refer to a table without a declared foreign key
READERS = ("reader", "by", "made_by")
TIMES = ("added", "closed", "created", "ended", "frozen", "started", "updated")
WHICH = {  # SQL conditions for the rows of a study in tables without references
    "studies": "id = :study",
    "settings": "key IN (" + ", ".join(f"'{name}:' || :study" for name in SETTINGS) + ")",
    "presets": "removed = 0",
}
ORDINALS = ("first_review", "last_review")  # the last review before a session, possibly in another study
JSON, MADE = "json", "made"  # a JSON value with a type, or a JSON value that a function converts


def stays(name: str) -> bool:
    """Returns whether a table (TABLE) or a column (TABLE.COLUMN) is excluded from bundles."""
    return any(fnmatch.fnmatch(name, pattern) for pattern in STAYS)


@dataclass(frozen=True)
class Column:
    """Exported column. `required` means that it cannot be NULL; `refers` is the table that it refers to, or None."""

    name: str
    type: str
    required: bool
    refers: str | None


@dataclass(frozen=True)
class Table:
    """Exported table. `key` is its id column, which is replaced on import, or None; `where` selects a study's rows."""

    name: str
    key: str | None
    columns: tuple[Column, ...]
    where: str

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


def tables(store: Store) -> dict[str, Table]:
    """Reads the exported tables from the database schema; returns them by name, each after the tables it refers to."""
    names = [row["name"] for row in store.query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")]
    waiting = {name: _columns(store, name) for name in names if not stays(name)}
    done: dict[str, Table] = {}
    while waiting:
        ready = next(
            name for name, columns in waiting.items()
            if all(c.refers in {*done, name, None} for c in columns) and ("reviews" in done or not _ordinal(columns))
        )  # fmt: skip
        columns = tuple(waiting.pop(ready))
        done[ready] = Table(ready, _key(store, ready, columns), columns, _rows_of(store, ready, columns, done))
    return done


def _ordinal(columns: list[Column]) -> bool:
    return any(column.name in ORDINALS for column in columns)


def _columns(store: Store, table: str) -> list[Column]:
    keys = dict(LINKS) | {
        k["from"]: k["table"] for k in store.query(f'SELECT * FROM pragma_foreign_key_list("{table}")')
    }
    return [
        Column(
            c["name"],
            c["type"],
            bool(c["notnull"] or c["pk"]),
            keys.get(c["name"]) or LINKS.get(f"{table}.{c['name']}") or LINKS.get(c["name"]),
        )
        for c in store.query(f'SELECT * FROM pragma_table_info("{table}")')
        if not stays(f"{table}.{c['name']}")
    ]


def _key(store: Store, table: str, columns: tuple[Column, ...]) -> str | None:
    """Returns the only column of the primary key, or None if there are several or it refers to another table."""
    keys = [c["name"] for c in store.query(f'SELECT * FROM pragma_table_info("{table}")') if c["pk"]]
    plain_keys = [c.name for c in columns if c.name in keys and c.refers is None]
    return plain_keys[0] if len(keys) == 1 and plain_keys and table != "settings" else None


def _rows_of(store: Store, table: str, columns: tuple[Column, ...], done: dict[str, Table]) -> str:
    if table in WHICH:
        return WHICH[table]
    conditions = [
        f'"{c.name}" = :study' if c.refers == "studies"
        else f'"{c.name}" IN (SELECT "{done[c.refers].key}" FROM "{c.refers}" WHERE {done[c.refers].where})'
        for c in columns if c.refers and c.refers != table and c.required
    ]  # fmt: skip
    if not conditions:
        raise ValueError(f"the rows of {table} do not refer to a study: add the table to WHICH or STAYS")
    binned = store.query(f"SELECT 1 FROM pragma_table_info(\"{table}\") WHERE name = 'binned'")
    return " AND ".join([*conditions, *(["binned IS NULL"] if binned else [])])


@dataclass
class Ids:
    """Maps the ids and reader names in a bundle to new ones. `study` is the new id of the study, and `was` the old one.

    `files` is the folder to which the study's images will be moved. `taken` contains the account names in this home. A
    reader in the bundle with one of these names is treated as a different person and is renamed.
    """

    study: str
    was: str
    home: Home
    files: Path
    taken: set[str]
    new: dict[str, dict[Any, Any]] = field(default_factory=dict)
    reader: dict[str, str] = field(default_factory=dict)
    sizes: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)

    def of(self, table: str) -> dict[Any, Any]:
        return self.new.setdefault(table, {})

    def name_of(self, reader: str) -> str:
        """Returns the name under which a reader's work is stored. No account has it, so nobody can sign in with it."""
        if reader not in self.reader:
            self.reader[reader] = f"{reader[:64]} ({self.study})" if reader in self.taken else reader[:64]
        return self.reader[reader]

    def renamed(self, value: Any) -> Any:
        """Returns a copy of a JSON value in which the ids of runs and cluster maps are replaced by the new ids."""
        if isinstance(value, dict):
            return {self.renamed(k): self.renamed(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.renamed(v) for v in value]
        if not isinstance(value, str):
            return value
        return self.of("runs").get(value) or self.of("cluster_maps").get(value) or value

    def before(self, review: int, first: int) -> int:
        """Returns the largest new id of the reviews whose old id is at most `review`, or `first` if there are none."""
        return max((new for old, new in self.of("reviews").items() if old <= review), default=first)


def _config(value: Any, row: Row, ids: Ids) -> Any:
    return foreign_runs.settings(row["kind"], row["method"], value, ids.home, ids.of("runs"), "a run in the bundle")


def _plan(value: Any, row: Row, ids: Ids) -> Any:
    plan = ids.renamed(value)
    for group in ("readers", "panel"):
        plan[group] = [ids.name_of(reader) for reader in plan.get(group, [])]
    return TrialPlan.from_dict(plan).to_dict()


def _evaluation(value: Any, row: Row, ids: Ids) -> Any:
    return ids.renamed(foreign_runs.kept(foreign_runs.Evaluation.model_validate_json(json.dumps(value))))


Extra = Number | bool | None | list[Number] | list[list[Number]] | list[tuple[Integer, Number]]
KINDS: dict[str, Any] = {  # columns with a stricter type than in SQL: a type, (JSON, type) or (MADE, function)
    "cases.name": Name,
    "cases.scale": (JSON, tuple[Number, Number]),
    "cases.tags": (JSON, list[Name]),
    "cluster_maps.config": (MADE, lambda value, row, ids: MapConfig.from_dict(value).to_dict()),
    "cluster_maps.epochs": (JSON, list[Count]),
    "cluster_views.name": Name,
    "cluster_views.state": (JSON, dict[str, Any]),
    "evaluations.row": (MADE, _evaluation),
    "findings.box": (JSON, Annotated[list[Number], Len(4, 4)]),
    "presets.config": (MADE, lambda value, row, ids: checked_preset(row["strong"], value)),
    "presets.name": Name,
    "readings.extra": (JSON, dict[Name, Extra]),
    "reviews.shown": (JSON, dict[str, Any]),
    "runs.config": (MADE, _config),
    "runs.name": Name,
    "runs.packages": (JSON, dict[str, Text]),
    "runs.summary": (MADE, lambda value, row, ids: ids.renamed(foreign_runs.summary(value, "a run's summary"))),
    "settings.value": (MADE, lambda value, row, ids: value),  # checked by key once the row is complete
    "studies.config": (JSON, dict[str, Any]),
    "studies.name": Name,
    "trial_cases.truth": Literal["normal", "abnormal"],
    "trial_parts.arm": Literal["unaided", "aided", "both"],
    "trial_reads.marks": (JSON, list[tuple[Number, Number, Number, Number, Number]]),
    "trials.name": Name,
    "trials.plan": (MADE, _plan),
}
_TYPES = {"INTEGER": Integer, "REAL": Number, "TEXT": Text, "BLOB": bytes}


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return (
        TypeAdapter(kind, config={"strict": True, "allow_inf_nan": False}) if kind is not bytes else TypeAdapter(kind)
    )


def stored(table: str, column: Column, value: Any, row: Row, ids: Ids) -> Any:
    """Checks a value from a bundle and converts it to the form in which this database stores it.

    `row` contains the columns of the same row that were already converted. Raises Refused if the value is invalid.
    """
    if value is None:
        return None  # the database decides whether NULL is allowed
    name = f"{table}.{column.name}"
    try:
        if column.refers == "studies":
            return ids.study
        if column.refers is not None:
            new = ids.of(column.refers).get(value)
            if new is None and column.required:
                raise Refused(f"the bundle's {name} refers to a row that is not in the bundle: {str(value)[:80]!r}")
            return new
        if name == "cases.path":
            return _path(value, ids)
        kind = KINDS.get(name)
        if isinstance(kind, tuple):
            return _json(kind[0], kind[1], value, row, ids)
        if column.type == "REAL" and isinstance(value, float) and not math.isfinite(value) and not column.required:
            return None
        value = _adapter(kind or _TYPES[column.type]).validate_python(value, strict=True)
        if column.name in TIMES and column.type == "TEXT":
            datetime.fromisoformat(value.replace("Z", "+00:00"))
        return ids.name_of(value) if column.name in READERS else value
    except (Refused, BadConfig, UnknownName) as error:
        raise Refused(str(error)) from None
    except ValidationError as error:
        raise Refused(f"the bundle's {name} cannot be used: {fault(error.errors()[0])}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise Refused(f"the bundle's {name} has an invalid value: {str(value)[:80]!r}") from None


def _json(how: str, kind: Any, value: Any, row: Row, ids: Ids) -> str:
    read = bounded(json.loads(_adapter(Text).validate_python(value), parse_constant=lambda nan: None))
    if how == MADE:
        return json.dumps(kind(read, row, ids))
    _adapter(kind).validate_json(json.dumps(read))
    return json.dumps(ids.renamed(read))


def _path(value: Any, ids: Ids) -> str:
    """Returns an image's path in the new folder, even if the image is missing, so that no other file is read."""
    components = parts_of(_adapter(Text).validate_python(value))
    if components[0] != "images" or len(components) != 3:
        raise ValueError
    return str(ids.files.joinpath(*components[1:]))
