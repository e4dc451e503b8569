"""The audit trail: one row per act, append-only, each sealed by a hash over itself and the row before.

Triggers refuse UPDATE, DELETE and REPLACE; the chain shows changes made around the triggers.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from core.studio.db.store import Row, Store, now

START = "0" * 64
SEALED = ("id", "at", "who", "kind", "study", "case_id", "before", "after", "shown", "seconds", "previous")


_REVIEW = ("id", "case_id", "reader", "stage", "decision", "comment")


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def seal(row: Row) -> str:
    """Computes the SHA-256 over all columns of an event but its own hash."""
    return hashlib.sha256(_json([row[c] for c in SEALED]).encode()).hexdigest()


def record(
    store: Store,
    who: str,
    kind: str,
    *,
    study: str | None = None,
    case_id: int | None = None,
    before: Any = None,
    after: Any = None,
    shown: dict[str, Any] | None = None,
    seconds: float | None = None,
) -> int:
    """Appends an event; returns its id. Call it inside the `store.write()` that makes the change."""
    with store.write() as db:
        last = db.execute("SELECT id, hash FROM events ORDER BY id DESC LIMIT 1").fetchone()
        number: int = last[0] + 1 if last else 1
        row = {
            "id": number,
            "at": now(),
            "who": who,
            "kind": kind,
            "study": study,
            "case_id": case_id,
            "before": _json(before),
            "after": _json(after),
            "shown": _json(shown or {}),
            "seconds": seconds,
            "previous": last[1] if last else START,
        }
        row["hash"] = seal(row)
        marks = ", ".join("?" * len(row))
        db.execute(f"INSERT INTO events ({', '.join(row)}) VALUES ({marks})", list(row.values()))
    return number


def seal_reviews(store: Store, study: str) -> Row | None:
    """Seals a study's reviews that came from elsewhere: {"first", "last", "sha256"}; None if it has none.

    They have no events of their own here: the event of their import carries this seal.
    """
    query = "SELECT id FROM reviews WHERE case_id IN (SELECT id FROM cases WHERE study = ?) ORDER BY id"
    numbers = [r["id"] for r in store.query(query, [study])]
    span = {"first": numbers[0], "last": numbers[-1]} if numbers else None
    return None if span is None else {**span, "sha256": _digest_of_reviews(store, span)}


def _digest_of_reviews(store: Store, span: Row) -> str:
    digest = hashlib.sha256()
    query = f"SELECT {', '.join(_REVIEW)} FROM reviews WHERE id BETWEEN ? AND ? ORDER BY id"
    for row in store.db.query(query, [span["first"], span["last"]]):
        digest.update(_json(list(row.values())).encode())
    return digest.hexdigest()


def sealed_again(store: Store) -> list[Row]:
    """Seals the reviews that came from elsewhere anew, as they are now: for the event of an erasure."""
    rows = store.query("SELECT after FROM events WHERE kind = 'import' ORDER BY id")
    spans = [(json.loads(row["after"]) or {}).get("reviews") for row in rows]
    return [{**span, "sha256": _digest_of_reviews(store, span)} for span in spans if span]


def _is_empty(row: Row) -> bool:
    return (row["before"], row["after"], row["shown"]) == ("null", "null", "{}")


def verify(store: Store) -> Row:
    """Checks the chain, and that each review has its event and back: {"ok", "events", "head", "problems": [sentences]}.

    Events whose content was erased with a patient keep their place and hash; the event of the erasure names them.
    """
    problems: list[str] = []
    altered: dict[int, bool] = {}  # by number, whether it is empty
    erased: set[int] = set()
    sealed: dict[tuple[int, int], str] = {}
    previous, expected = START, 1
    decided: dict[int, list[Any]] = {}
    masks: dict[int, str] = {}
    spans: list[Row] = []  # of reviews that came with bundles
    for row in store.db.query("SELECT * FROM events ORDER BY id"):
        if row["id"] != expected:
            problems.append(f"event {expected} is missing")
        if row["previous"] != previous:
            problems.append(f"event {row['id']} does not follow the event before it")
        if seal(row) != row["hash"]:
            altered[row["id"]] = _is_empty(row)
        previous, expected = row["hash"], row["id"] + 1
        after = json.loads(row["after"])
        if row["id"] in altered:
            continue
        if row["kind"] == "erase":
            erased |= {*after["events"]}
            sealed |= {(span["first"], span["last"]): span["sha256"] for span in after["sealed"]}
        elif row["kind"] == "decision":
            decided[after["review"]] = [row["case_id"], row["who"], after["stage"], after["decision"], after["comment"]]
        elif row["kind"] == "mask":
            masks[after["mask"]] = after["sha256"]
        elif row["kind"] == "import" and (after or {}).get("reviews"):
            spans.append(after["reviews"])
    problems += [f"event {i} was altered" for i, is_empty in altered.items() if not (is_empty and i in erased)]
    for span in spans:
        if _digest_of_reviews(store, span) != sealed.get((span["first"], span["last"]), span["sha256"]):
            problems.append(f"of reviews {span['first']} to {span['last']}, brought in, one was altered or is gone")
    for review in store.db.query("SELECT id, case_id, reader, stage, decision, comment FROM reviews"):
        event = decided.pop(review["id"], None)
        if event is None and any(s["first"] <= review["id"] <= s["last"] for s in spans):
            continue
        if event is None:
            problems.append(f"review {review['id']} has no event")
        elif event != [review[k] for k in ("case_id", "reader", "stage", "decision", "comment")]:
            problems.append(f"review {review['id']} is not what its event says")
    problems += [f"review {i} is gone" for i in decided]
    for mask in store.db.query("SELECT id, png FROM lesion_masks WHERE source != 'import'"):
        digest = masks.pop(mask["id"], None)
        if digest is not None and digest != hashlib.sha256(mask["png"]).hexdigest():
            problems.append(f"lesion mask {mask['id']} was altered")
    problems += [f"lesion mask {i} is gone" for i in masks]
    return {"ok": not problems, "events": expected - 1, "head": previous, "problems": problems[:50]}


def trail(
    store: Store,
    study: str | None = None,
    case_id: int | None = None,
    limit: int = 200,
    *,
    who: str | None = None,
    kind: str | None = None,
    since: str | None = None,
    until: str | None = None,
    before: int | None = None,
) -> list[dict[str, Any]]:
    """Returns the latest events, newest first, with their JSON columns as values, and the name of their `case`.

    since, until: times or days in ISO 8601 (UTC), a day counted whole. before: only events with a smaller number, so
    that the last one's `id` asks for the next page.
    """
    tests: dict[str, object] = {
        "study = ?": study, "case_id = ?": case_id, "who = ?": who, "kind = ?": kind, "at >= ?": since,
        "at < ?": f"{until}T24" if until and len(until) == 10 else until, "id < ?": before,
    }  # fmt: skip
    where = {test: value for test, value in tests.items() if value is not None}
    rows = store.query(
        f"SELECT *, (SELECT name FROM cases c WHERE c.id = events.case_id) AS 'case' FROM events "
        f"WHERE {' AND '.join(where) or '1'} ORDER BY id DESC LIMIT ?",
        [*where.values(), limit],
    )
    return [{k: json.loads(v) if k in ("before", "after", "shown") else v for k, v in r.items()} for r in rows]


def values(store: Store) -> dict[str, list[str]]:
    """Lists the {"kinds", "people", "studies"} that occur in the trail, sorted: what it can be filtered by."""
    columns = {"kinds": "kind", "people": "who", "studies": "study"}
    by_column = {name: store.query(f"SELECT DISTINCT {c} AS v FROM events ORDER BY v") for name, c in columns.items()}
    return {name: [r["v"] for r in rows if r["v"]] for name, rows in by_column.items()}
