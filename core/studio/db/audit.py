"""The audit trail: an append-only table of events, each sealed with a hash of the event and of the previous hash.

Events contain ids, kinds, numbers, account names and hashes, but no other text. Other text stays in the rows to which
events refer, and `trail` adds it when events are read. A patient can thus be erased without changing an event. Triggers
prevent UPDATE, DELETE and REPLACE; changes that bypass the triggers break the chain of hashes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from typing import Any

from core.studio.db.store import Row, Store, now

START = "0" * 64
SEALED = ("id", "at", "who", "kind", "study", "case_id", "before", "after", "shown", "seconds", "previous")
ERASED = "(erased)"

_REVIEW = ("id", "case_id", "reader", "stage", "decision", "comment")
# Keys whose text is an id, a kind, a hash or an account name; any other text is stored as a hash (`word`).
_PLAIN = frozenset(
    ("arm", "bundle", "case", "choice", "decision", "digest", "file", "fingerprint", "format", "head", "kept", "kind")
    + ("reader", "readers", "role", "run", "runs", "sha256", "source", "stage", "state", "studies")
)
_KEY = re.compile(r"[a-z_0-9]{1,24}")
_WORD = re.compile(r"#[0-9a-f]{16}")
# Query for the texts whose hashes events may contain.
_WORDS = (
    "SELECT folder AS word FROM roots UNION SELECT folder FROM watches UNION SELECT name FROM tokens "
    "UNION SELECT name FROM runs UNION SELECT name FROM studies UNION SELECT tag FROM case_tags "
    "UNION SELECT j.value FROM settings s, json_each(s.value) j WHERE s.key LIKE 'labels:%' OR s.key LIKE 'tags:%'"
)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def seal(row: Row) -> str:
    """Returns the hash of an event, which is the SHA-256 of all its other columns."""
    return hashlib.sha256(_json([row[c] for c in SEALED]).encode()).hexdigest()


def key(store: Store, name: str = "audit key") -> bytes:
    """Returns the home's secret key `name` for keyed hashes; creates the key on first use."""
    text = store.setting(name)
    if text is None:
        with store.write():
            text = store.setting(name) or secrets.token_hex(32)
            store.set_setting(name, text)
    return bytes.fromhex(text)


def word(store: Store, text: str) -> str:
    """Returns the keyed hash that replaces a text in events, as "#" followed by 16 hexadecimal digits."""
    return "#" + hmac.new(key(store), text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:16]


def review_sha256(row: Row) -> str:
    """Returns the SHA-256 of a review's salt and content, which is also stored in the review's event."""
    return hashlib.sha256(_json([row["salt"], *(row[column] for column in _REVIEW)]).encode()).hexdigest()


def _without_words(store: Store, value: Any, name: str) -> Any:
    if isinstance(value, dict):
        inside = {k if _KEY.fullmatch(k) or name == "readers" else word(store, k): v for k, v in value.items()}
        return {k: _without_words(store, v, "readers" if name == "readers" else k) for k, v in inside.items()}
    if isinstance(value, list | tuple):
        return [_without_words(store, v, name) for v in value]
    return word(store, value) if isinstance(value, str) and value and name not in _PLAIN else value


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
    """Appends an event and returns its id. Call this in the same `store.write()` block as the change that it records.

    Strings in `before`, `after` and `shown` are replaced by keyed hashes, except under the keys listed in _PLAIN.
    """
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
            "before": _json(_without_words(store, before, kind)),
            "after": _json(_without_words(store, after, kind)),
            "shown": _json(_without_words(store, shown or {}, "shown")),
            "seconds": seconds,
            "previous": last[1] if last else START,
        }
        row["hash"] = seal(row)
        marks = ", ".join("?" * len(row))
        db.execute(f"INSERT INTO events ({', '.join(row)}) VALUES ({marks})", list(row.values()))
    return number


def seal_reviews(store: Store, study: str) -> Row | None:
    """Returns a seal of a study's imported reviews, {"first": id, "last": id, "sha256"}, or None if it has no reviews.

    Imported reviews have no events of their own. The event of the import contains this seal instead.
    """
    query = "SELECT id FROM reviews WHERE case_id IN (SELECT id FROM cases WHERE study = ?) ORDER BY id"
    numbers = [r["id"] for r in store.query(query, [study])]
    span = {"first": numbers[0], "last": numbers[-1]} if numbers else None
    return None if span is None else {**span, "sha256": _digest_of_reviews(store, span)}


def _digest_of_reviews(store: Store, span: Row) -> str:
    digest = hashlib.sha256()
    query = f"SELECT salt, {', '.join(_REVIEW)} FROM reviews WHERE id BETWEEN ? AND ? ORDER BY id"
    for row in store.db.query(query, [span["first"], span["last"]]):
        digest.update(review_sha256(row).encode())
    return digest.hexdigest()


def sealed_again(store: Store) -> list[Row]:
    """Recomputes the seals of all imported reviews after an erasure; the event of the erasure stores them."""
    rows = store.query("SELECT after FROM events WHERE kind = 'import' ORDER BY id")
    spans = [(json.loads(row["after"]) or {}).get("reviews") for row in rows]
    return [{**span, "sha256": _digest_of_reviews(store, span)} for span in spans if span]


def verify(store: Store) -> Row:
    """Checks the chain of hashes, and compares reviews and lesion masks with their events.

    Erased reviews, masks and comments are not reported as missing, because the event of the erasure lists them.

    Returns {"ok", "events": number of events, "head": last hash, "problems": at most 50 sentences}.
    """
    problems: list[str] = []
    sealed: dict[tuple[int, int], str] = {}
    previous, expected = START, 1
    decided: dict[int, list[Any]] = {}
    masks: dict[int, str] = {}
    spans: list[Row] = []  # seals of imported reviews
    for row in store.db.query("SELECT * FROM events ORDER BY id"):
        if row["id"] != expected:
            problems.append(f"event {expected} is missing")
        if row["previous"] != previous:
            problems.append(f"event {row['id']} does not follow the event before it")
        previous, expected = row["hash"], row["id"] + 1
        if seal(row) != row["hash"]:
            problems.append(f"event {row['id']} was altered")
            continue
        after = json.loads(row["after"])
        if row["kind"] == "erase":
            sealed |= {(span["first"], span["last"]): span["sha256"] for span in after["sealed"]}
            for gone, numbers in ((decided, after["reviews"]), (masks, after["masks"])):
                for number in numbers:
                    gone.pop(number, None)
            for review in after["comments"]:
                if review["review"] in decided:
                    decided[review["review"]][-1] = review["sha256"]
        elif row["kind"] == "decision":
            decided[after["review"]] = [row["case_id"], row["who"], after["stage"], after["decision"], after["sha256"]]
        elif row["kind"] == "mask":
            masks[after["mask"]] = after["sha256"]
        elif row["kind"] == "import" and (after or {}).get("reviews"):
            spans.append(after["reviews"])
    for span in spans:
        if _digest_of_reviews(store, span) != sealed.get((span["first"], span["last"]), span["sha256"]):
            problems.append(f"one of the imported reviews {span['first']} to {span['last']} was altered or is missing")
    for review in store.db.query(f"SELECT salt, {', '.join(_REVIEW)} FROM reviews"):
        event = decided.pop(review["id"], None)
        if event is None and any(s["first"] <= review["id"] <= s["last"] for s in spans):
            continue
        if event is None:
            problems.append(f"review {review['id']} has no event")
        elif event != [*(review[k] for k in ("case_id", "reader", "stage", "decision")), review_sha256(review)]:
            problems.append(f"review {review['id']} differs from its event")
    problems += [f"review {i} is missing" for i in decided]
    for mask in store.db.query("SELECT id, png FROM lesion_masks WHERE source != 'import'"):
        digest = masks.pop(mask["id"], None)
        if digest is not None and digest != hashlib.sha256(mask["png"]).hexdigest():
            problems.append(f"lesion mask {mask['id']} was altered")
    problems += [f"lesion mask {i} is missing" for i in masks]
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
    """Returns the latest `limit` matching events, newest first, with parsed JSON columns and the case's name as `case`.

    Texts (comments, labels of findings, tags, folders) are added from the current rows; a text that no longer exists is
    shown as "(erased)". `since` and `until` are times or inclusive days in ISO 8601 (UTC). `before` restricts the
    result to smaller ids: pass the id of the last event to get the next page.
    """
    tests: dict[str, object] = {
        "study = ?": study, "case_id = ?": case_id, "who = ?": who, "kind = ?": kind, "at >= ?": since,
        "at < ?": f"{until}T24" if until and len(until) == 10 else until, "id < ?": before,
    }  # fmt: skip
    where = {test: value for test, value in tests.items() if value is not None}
    rows = store.query(
        f"SELECT *, (SELECT name FROM cases c WHERE c.id = events.case_id) AS 'case', "
        "(SELECT comment FROM reviews r WHERE kind = 'decision' "
        "AND r.id = json_extract(after, '$.review')) AS comment, "
        "(SELECT json_array(label, comment) FROM findings f WHERE kind = 'finding' "
        "AND f.id = json_extract(after, '$.finding')) AS finding "
        f"FROM events WHERE {' AND '.join(where) or '1'} ORDER BY id DESC LIMIT ?",
        [*where.values(), limit],
    )
    words: dict[str, str] = {}
    if any(_WORD.search(f"{row['before']}{row['after']}{row['shown']}") for row in rows):
        words = {word(store, row["word"]): row["word"] for row in store.query(_WORDS)}
    events = []
    for row in rows:
        event = {k: _spelled(json.loads(v), words) if k in ("before", "after", "shown") else v for k, v in row.items()}
        finding, comment = event.pop("finding"), event.pop("comment")
        if event["kind"] == "decision":
            event["after"]["comment"] = ERASED if comment is None else comment
        elif finding is not None:
            event["after"] |= dict(zip(("label", "comment"), json.loads(finding), strict=True))
        events.append(event)
    return events


def _spelled(value: Any, words: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {_spelled(k, words): _spelled(v, words) for k, v in value.items()}
    if isinstance(value, list):
        return [_spelled(v, words) for v in value]
    return words.get(value, ERASED) if isinstance(value, str) and _WORD.fullmatch(value) else value


def values(store: Store) -> dict[str, list[str]]:
    """Returns the event kinds, user names and studies in the trail, sorted: {"kinds", "people", "studies"}."""
    columns = {"kinds": "kind", "people": "who", "studies": "study"}
    by_column = {name: store.query(f"SELECT DISTINCT {c} AS v FROM events ORDER BY v") for name, c in columns.items()}
    return {name: [r["v"] for r in rows if r["v"]] for name, rows in by_column.items()}
