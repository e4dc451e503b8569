"""A request that writes is refused and changes nothing, or is taken with its own rows and its event: random bodies.

Routes are found in openapi.json. What is declared here is of tables: which kinds of event a change of their rows has. A
table that comes later needs a line, and so does nothing else.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
from collections import Counter

import pytest

from app.routes import segment
from core.studio.db import audit, opening
from core.studio.ingest.background import Imports
from core.studio.ingest.originals import Source
from core.studio.jobs import queue
from core.studio.medmix import probe
from core.studio.review import sessions
from core.studio.training import dryrun
from tests.app.blindness.pair import BLIND, OPEN, PEOPLE, build_home
from tests.app.blindness.pair import tested as cases_of
from tests.app.blindness.requests import Values, draw_request
from tests.app.routes.clients import visitor, whole_server
from tests.app.routes.every_route import SMALL
from tests.conftest import wait
from tests.studio.review.conftest import asks

BITS = b"\x0f" * (72 * 60 // 8)
READERS = ("ann", "eve", "root", "root")
# As many of these events as rows that came, changed or went.
ONE_EACH = {
    "reviews": {"decision", "undo", "redo"}, "findings": {"finding", "finding-removed", "reset"},
    "lesion_masks": {"mask", "reset"}, "case_marks": {"marks"}, "reference_masks": {"reference"},
}  # fmt: skip
# One of these events for all rows of a request.
ONE_FOR_ALL = {
    "cases": {"tag", "untag", "import"}, "case_tags": {"tag", "untag"}, "assignments": {"assign", "unassign"},
    "reading_sessions": {"session-start", "session-end", "trial-plan"}, "trial_cases": {"trial-plan"},
    "trials": {"trial-plan", "trial-start", "trial-close", "trial-frozen"}, "trial_parts": {"trial-plan",
    "session-start"}, "readers": {"invite", "role", "password-reset", "password",
    "account-removed"}, "studies": {"bin", "restore", "import"}, "watches": {"watch"}, "roots": {"root"},
    "operating_points": {"operating-point"},
}  # fmt: skip
# What follows from another table's rows, or is a reader's own and says nothing of a case: no event. Who made a run, a
# map, a view or an upload is kept in `owners`.
FOLLOWS = {
    "current_reviews": "reviews", "case_votes": "reviews", "reader_words": "reviews", "undone": "reviews",
    "answered": "reviews", "reading_session_cases": "reading_sessions", "trial_reads": "reviews",
    "trial_marks": "findings", "readings": "operating_points",
}  # fmt: skip
OWN = {
    "mask_drafts", "jobs", "runs", "owners", "sessions", "cluster_maps", "cluster_views", "cluster_projected",
    "presets", "settings", "step_times", "sqlite_sequence", "incoming",
}  # fmt: skip
OF_A_STUDY = {
    "labels": {"labels"},
    "blind": {"blind"},
    "tags": {"tag", "untag"},
    "adopted": {"adopted"},
}  # settings NAME:STUDY
DRAWN = {"neutral_orders", "neutral_cases"}  # at random when they are first due, also by what is then refused
SECRETS = ("deidentify:", "patients", "audit key", "erased key")  # settings that are drawn likewise


def contents(store) -> dict[str, dict]:
    """Rows of each table, by a digest of the row."""
    tables = {}
    # A number that was drawn and not used is no row, so SQLite's own counters are left out.
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'sqlite_sequence'"
    for (name,) in store.db.conn.execute(query).fetchall():
        rows = store.db.conn.execute(f'SELECT * FROM "{name}"')
        columns = [c[0] for c in rows.description]
        keyed = ((hashlib.sha256(repr(row).encode()).digest(), row) for row in rows)
        tables[name] = {key: dict(zip(columns, row, strict=True)) for key, row in keyed}
    return tables


def difference(before: dict, after: dict) -> dict[str, tuple[list[dict], list[dict]]]:
    """table: (rows that went, rows that came), of the tables that differ but for what is drawn at random."""
    changed = {}
    for name, rows in before.items():
        went = [row for key, row in rows.items() if key not in after[name]]
        came = [row for key, row in after[name].items() if key not in rows]
        if name == "settings":
            came = [row for row in came if not row["key"].startswith(SECRETS)]
        if name not in DRAWN and (went or came):
            changed[name] = (went, came)
    return changed


class WriteValues(Values):
    def settings(self, pick) -> dict:
        return pick([{}, super().settings(pick), SMALL])


class Writer:
    """Requests that write, to one server, by readers and an administrator."""

    def __init__(self, home, pick):
        self.store, self.pick = opening.open(str(home)), pick
        self.server = whole_server(self.store)
        self.clients = {name: visitor(self.server, name, follow_redirects=False) for name in PEOPLE}
        spec = self.clients["root"].get("/openapi.json").json()
        self.operations = {
            f"{method.upper()} {path}": about for path, ways in spec["paths"].items() for method, about in ways.items()
        }
        writing = sorted(row for row in self.operations if not row.startswith("GET "))
        self.rows = writing + 2 * [row for row in writing if "/api/review/" in row or "/reading/" in row]
        self.rows += [row for row in self.operations if row.startswith("GET ")]  # none of which changes anything
        pools = {
            "study": [BLIND, OPEN, OPEN, "none"], "name": [*PEOPLE, "x", "mine"], "reader": [*PEOPLE, "x"],
            "readers": [*PEOPLE], "labels": ["polyp", "odd", ""], "source": ["hand", "run", "x"], "strong": ["medmix"],
            "kind": ["csv", "coco", "png", "dicom-seg", "dicom-map", "dicom-sr", "cvat", "bundle", "endoscopy", "svg"],
            "role": ["reader", "x"],
            "tag": ["odd", "new", ""], "path": ["a.png", "../a.png", ""], "value": ["text", ""],
            "action": ["rename", "note", "archive", "restore", "delete", "pause", "cancel", "resume"],
        }  # fmt: skip
        self.values = WriteValues(pools, spec["components"]["schemas"])
        self.known()
        self.answered: Counter[str] = Counter()
        self.refused = self.taken = 0

    def known(self) -> None:
        """What the home has by now, for the next request."""
        self.cases = [*cases_of(self.store, OPEN), *cases_of(self.store, BLIND)]
        tables = {"run": "runs", "id": "lesion_masks", "finding": "findings", "view": "cluster_views", "job": "jobs"}
        for name, table in tables.items():
            ids = [row["id"] for row in self.store.query(f"SELECT id FROM {table} ORDER BY id")]
            self.values.pools[name] = [*ids[-12:], 999, "none"][: 12 + (name == "run")] or [999]

    def step(self) -> None:
        who, row = self.pick(READERS), self.pick(self.rows)
        self.come_back(who)
        # A blind reader knows cases by their neutral numbers.
        self.values.pools["case"] = self.cases + [self.shown(who, case) for case in self.pick([self.cases[-8:], []])]
        method, address, given = draw_request(self.pick, self.values, row, self.operations[row], BITS)
        given.pop("headers", None)
        before = contents(self.store)
        named = self.named(who, row, address, given.get("json"))
        answer = self.ask(who, method, address, given)
        changed = difference(before, contents(self.store))
        said = f"{who} {method} {address} {str(given)[:400]}: {answer.status_code} {answer.text[:200]}"
        assert answer.status_code < 500, said
        refused = answer.status_code >= 400 or b'"ok":false' in answer.content[:20]
        if refused or method == "GET":
            assert not changed, f"refused, or no more than asked, and changed {changed}\n{said}"
            self.refused += 1
            return
        self.taken += 1
        self.answered[row] += 1
        wrong = self.wrong(who, named, changed)
        assert not wrong, f"{wrong}\n{said}\n{changed}"
        if isinstance(given.get("json"), dict) and given["json"].get("token"):
            now = contents(self.store)
            self.ask(who, method, address, given)
            assert not difference(now, contents(self.store)), f"sent again, it changed something\n{said}"
        if answer.headers.get("content-type", "").startswith("application/json"):
            self.values.note(answer.json())
        self.known()

    def come_back(self, who: str) -> None:
        """Sign in anew whom a request before has signed out or removed; an administrator's own session ends."""
        held = self.server.state.ctx.sessions
        if held.name_of(self.sign_in(who)) is None:
            self.store.execute("UPDATE readers SET password_hash = 'none' WHERE name = ?", [who])
            self.clients[who].cookies.set(held.COOKIE, held.start(who))
        if who == "root" and self.pick([True, False]):
            sessions.end_session(self.store, who)

    def ask(self, who: str, method: str, address: str, given: dict):
        answer = self.clients[who].request(method, address, **given)
        tasks = self.server.state.ctx.held(Imports, self.store)._tasks
        wait(lambda: all(task["state"] != "running" for task in tasks.values()))
        return answer

    def shown(self, who: str, case: int) -> int:
        """The number by which a reader knows a case."""
        return asks(self.store, who, case_id=case).names.number(case)

    def sign_in(self, who: str) -> str:
        return self.clients[who].cookies.get(self.server.state.ctx.sessions.COOKIE, "")

    def named(self, who: str, row: str, address: str, body) -> dict[str, set]:
        """{"case_id", "study"} that a request speaks of, by their own numbers."""
        said, cases = f"{address} {body}", set()
        numbers = {int(n) for n in re.findall(r"\d+", said)}
        for study in (BLIND, OPEN):
            known = asks(self.store, who, study=study).names
            own = [r["id"] for r in self.store.query("SELECT id FROM cases WHERE study = ?", [study])]
            cases |= {case for case in own if (known.number(case) if known.covers else case) in numbers}
        last = re.findall(r"/(\d+)", address.split("?")[0])[-1:]
        for table, part in (("lesion_masks", "{mask_id}"), ("findings", "{finding}")):
            if part in row and last:
                found = self.store.query(f"SELECT case_id FROM {table} WHERE id = ?", last)
                cases |= {one["case_id"] for one in found}
        of = {r["study"] for r in self.store.query("SELECT id, study FROM cases") if r["id"] in cases}
        runs = {r["id"] for r in self.store.query("SELECT id FROM runs") if r["id"] in said}
        of |= {r["study"] for r in self.store.query("SELECT id, study FROM runs") if r["id"] in runs}
        return {"case_id": cases, "study": of | {s for s in (BLIND, OPEN) if s in said}}

    def wrong(self, who: str, named: dict[str, set], changed: dict) -> list[str]:
        """What is wrong with the rows that a request has changed."""
        problems = []
        gone, events = changed.pop("events", ([], []))
        if gone and "erase" not in {event["kind"] for event in events}:
            problems.append("an event went")
        kinds = Counter(event["kind"] for event in events)
        if kinds["erase"]:  # rows of all tables go; tests/studio/review/test_erasing.py looks at them
            (event,) = [event for event in events if event["kind"] == "erase"]
            return [] if event["who"] == who else ["an erasure by somebody else"]
        for event in events:
            if event["who"] != who:
                problems.append(f"an event of {event['who']}")
            ends = event["kind"] == "session-end"  # of the one before, which may be of another study
            if event["study"] not in (None, *named["study"]) and not ends:
                problems.append(f"an event of the study {event['study']}")
            if event["case_id"] not in (None, *named["case_id"]) and event["kind"] not in ("undo", "redo", "assign"):
                problems.append(f"an event of the case {event['case_id']}")
        for table, (went, came) in changed.items():
            rows = max(len(went), len(came))
            if table in ONE_EACH and rows != sum(kinds[kind] for kind in ONE_EACH[table]):
                problems.append(f"{rows} rows of {table} with {dict(kinds)}")
            elif table in ONE_FOR_ALL and not kinds.keys() & ONE_FOR_ALL[table]:
                problems.append(f"rows of {table} without an event")
            elif table in FOLLOWS and FOLLOWS[table] not in changed:
                problems.append(f"rows of {table} without any of {FOLLOWS[table]}")
            elif table == "settings":
                for row in (*went, *came):
                    due = OF_A_STUDY.get(row["key"].split(":")[0])
                    if due and not kinds.keys() & due:
                        problems.append(f"setting {row['key']} without an event")
                    if row["key"].startswith(("keys:", "show:")) and row["key"][5:] != who:
                        problems.append(f"another reader's {row['key']}")
            elif table not in {*ONE_EACH, *ONE_FOR_ALL, *FOLLOWS, *OWN}:
                problems.append(f"rows of {table}, of which nothing is declared")
            if table in ("reviews", "findings", "lesion_masks", "mask_drafts", "case_marks"):
                others = {row["reader"] for row in (*went, *came)} - {who}
                cases = {row["case_id"] for row in (*went, *came)} - named["case_id"]
                if others or (cases and not kinds.keys() & {"undo", "redo"}):
                    problems.append(f"rows of {table} of {others or cases}")
            if table == "runs":
                owners = {row["id"] for row in changed.get("owners", ([], []))[1] if row["reader"] == who}
                new = [row for row in came if row["id"] not in {other["id"] for other in went}]
                if [row for row in new if row["study"] not in named["study"] or row["id"] not in owners]:
                    problems.append("a run of another study, or of nobody")
        return problems


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue, "ensure_worker", lambda store: [])
        patch.setattr(segment, "segment", lambda store, case, *given: Source.of(case).image().mean(2) > 120)
        patch.setattr(probe, "_features", lambda encoder, images: images.flatten(2).mean(2).numpy())
        patch.setattr(dryrun, "dry_run", lambda *given: {"fits": False, "message": ""})
        folder = tmp_path_factory.mktemp("writes")
        build_home(folder)
        yield folder


def write(built, folder, seed: int, steps: int) -> Writer:
    """A walk of so many requests in a home of its own, whose audit trail is whole at the end."""
    shutil.copytree(built / "home", folder / "home")
    writer = Writer(folder / "home", random.Random(seed).choice)
    try:
        for _ in range(steps):
            writer.step()
        assert audit.verify(writer.store)["problems"] == []
    finally:
        writer.store.close()
    print(f"{writer.taken} taken of {writer.taken + writer.refused}, on {len(writer.answered)} of "
          f"{len(set(writer.rows))} routes")  # fmt: skip
    return writer


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_a_write_is_refused_and_changes_nothing_or_has_its_rows_and_its_event(built, tmp_path, seed):
    writer = write(built, tmp_path, seed, 140)
    assert writer.taken > 5 and writer.refused > 5 and len(writer.answered) > 3


@pytest.mark.longest
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 100 + int(os.environ.get("PMSACL_WALKS", "8"))))
def test_long_walks_of_writes(built, tmp_path, seed):
    """500 requests of each seed; PMSACL_WALKS: how many seeds."""
    write(built, tmp_path, seed, 500)


@pytest.mark.slow
def test_settings_are_stored_as_a_whole_or_not_at_all(built, tmp_path):
    shutil.copytree(built / "home", tmp_path / "home")
    writer = Writer(tmp_path / "home", random.Random(0).choice)
    before = contents(writer.store)
    body = {"study": OPEN, "keys": {"normal": "n"}, "blind": True, "labels": [" "]}
    assert writer.clients["root"].post("/api/review/settings", json=body).status_code == 400
    assert not difference(before, contents(writer.store))
    writer.store.close()
