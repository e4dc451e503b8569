"""Two homes that differ only in what a blind reader must not learn, and the two servers on them.

`HIDDEN` is the declared list: what each entry changes in the second home. A table that comes later and holds something
that is to stay hidden gets a row here; the walk (test_noninterference.py) then looks for it in every answer.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import random
import re
import secrets
import shutil
import sqlite3
import sys
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import cv2
import gradio as gr
import numpy as np
from gradio.context import Context as GradioContext
from gradio.helpers import special_args
from starlette.requests import Request

from app.context import Context
from core.studio.db import audit, opening
from core.studio.db import store as stored
from core.studio.demo.study import STUDY as DEMO
from core.studio.ingest import originals, studies
from core.studio.ingest.masks import encode_mask
from core.studio.jobs import queue
from core.studio.review import cases, decisions, people, sessions
from core.studio.runs import records as runs
from core.studio.trials import plan
from tests.app.routes.clients import visitor, whole_server
from tests.conftest import awaited
from tests.studio.review.conftest import add_readings, asks, decide, draw_folder, save_mask

BLIND, OPEN = DEMO, "openly"  # the tour speaks of the demo study alone
VALUES = re.compile(r"'(?:[^']|'')*'|[0-9a-f]{12,}|\b\d+(?:\.\d+)?\b")
NOW = 2_000_000_000  # seconds: later than all that the homes hold
PEOPLE = {"ann": "reader", "ben": "reader", "eve": "reader", "joe": "reader", "root": "administrator"}


class Clock(datetime):
    """A clock that stands: before the walk while the homes are built."""

    seconds = NOW - 10**6

    @classmethod
    def now(cls, tz=None):
        return datetime.fromtimestamp(cls.seconds, tz or timezone.utc)


class Dice:
    """Stands for what the studio draws its secrets, names and seeds from: a seed makes all of them again.

    Each module draws from a stream of its own in each home, which goes on from request to request: neither what
    Gradio's queue draws after an answer, whenever its thread comes to it, nor which request is the first to need a
    random order changes what is drawn. An order is as random to the reader whenever it was made, so that it follows
    from whose it is.
    """

    def __init__(self, monkeypatch):
        for module in (stored, people):
            monkeypatch.setattr(module, "datetime", Clock)
        monkeypatch.setattr(time, "time", lambda: float(Clock.seconds))
        monkeypatch.setattr(time, "time_ns", lambda: Clock.seconds * 10**9)
        monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
        monkeypatch.setattr(secrets, "token_bytes", lambda n=32: self.stream().randbytes(n or 32))
        monkeypatch.setattr(secrets, "token_hex", lambda n=32: self.stream().randbytes(n or 32).hex())
        monkeypatch.setattr(secrets, "token_urlsafe", lambda n=32: self.stream().randbytes(n or 32).hex())
        monkeypatch.setattr(secrets, "randbits", lambda n: self.stream().getrandbits(n))
        monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=self.stream().randbytes(16)))
        self.streams: dict[tuple[int, str], random.Random] = {}
        self.seed(0)

    def stream(self) -> random.Random:
        """That of the module that draws, and of an order's own."""
        frame = sys._getframe(2)
        if frame.f_code is sessions.make_order.__code__:
            return random.Random(repr([frame.f_locals[name] for name in ("study", "reader", "session")]))
        module = frame.f_globals["__name__"]
        return self.streams.setdefault((self.home, module), random.Random(module))

    def begin(self, home: int) -> None:
        """What the home draws from now on is what it would draw at first."""
        self.streams = {key: stream for key, stream in self.streams.items() if key[0] != home}
        self.seed(0, home)

    def seed(self, seed: int, home: int = 0) -> None:
        """The home's turn; `random` and NumPy begin at the seed."""
        self.home = home
        random.seed(seed)
        np.random.seed(seed)


def build_home(folder: Path) -> None:
    """A home of one study that is read blind and one that is not, both scored, read and drawn on by others."""
    store = opening.open(str(folder / "home"))
    for name, role in PEOPLE.items():  # nobody signs in with a password here, and hashing one takes its time
        store.db["readers"].insert({"name": name, "role": role, "password_hash": "none", "created": "2020-01-01"})
    draws = random.Random(1)
    for study in (BLIND, OPEN):
        images = draw_folder(folder / f"{study}-images", 4, 5, 5)
        studies.import_study(store, study, images, copy=True)
        scored = [add_readings(store, study, method, seed) for seed, method in enumerate(("padim", "nearest"))]
        first = [row["id"] for row in store.query("SELECT id FROM cases WHERE study = ? AND split = 'test'", [study])]
        for case in first:
            store.db["next_marks"].insert({"run": scored[0], "case_id": case, "value": case, "why": "drawn by chance"})
            decide(store, case, "ben", draws.choice(decisions.DECISIONS), run=scored[0], comment="seen by ben")
            size = store.first("SELECT width, height FROM cases WHERE id = ?", [case])
            if draws.random() < 0.6:
                drawn = np.zeros((size["height"], size["width"]), np.uint8)
                drawn[10:30, 20:40] = 1
                save_mask(store, case, drawn, "ben", note="drawn by ben")
            if draws.random() < 0.6:
                decisions.add_finding(asks(store, "ben", case_id=case), "polyp", "found by ben")
        cases.change_tag(store, study, first[::3], "odd", "ben")
        store.db["assignments"].insert_all({"reader": "ann", "case_id": c, "by": "root", "created": ""} for c in first)
        sessions.end_session(store, "ben")
    for case in committed(store):
        decide(store, case, "ann", "abnormal")
    gone = runs.create_run(store, BLIND, "fit", "padim", {}, name="gone")
    store.execute("UPDATE runs SET binned = '2026-01-01T00:00:00.000Z' WHERE id = ?", [gone])
    job = queue.submit(store, [{"step": "score", "run": scored[0]}], start=False)
    store.execute("UPDATE jobs SET status = 'failed', error = 'something broke' WHERE id = ?", [job])
    queue.submit(store, [{"step": "report", "run": "", "args": {"study": BLIND}}], start=False)
    store.db["watches"].insert({"study": BLIND, "folder": "/nowhere", "active": 0, "changed": "2026-01-01"})
    sessions.set_blind(store, BLIND, True, "root")
    store.close()


def tested(store, study: str = BLIND) -> list[int]:
    return [
        r["id"] for r in store.query("SELECT id FROM cases WHERE study = ? AND split = 'test' ORDER BY id", [study])
    ]


def committed(store) -> list[int]:
    """Cases that ann has decided on before the walk begins."""
    return tested(store)[::5]


def open_cases(store) -> list[int]:
    """Cases that may be decided on in a walk: of these only what stays hidden afterwards differs."""
    return tested(store)[::2]


def never(store) -> list[int]:
    """Cases that nobody decides on in a walk: of these all that is hidden differs."""
    decided = {*open_cases(store), *committed(store)}
    return [case for case in tested(store) if case not in decided]


# What is hidden, and how it is made different.


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def labels(store, rng, cases: list[int] | None = None) -> None:
    changed = never(store)[1:] if cases is None else cases  # other numbers of the one label and of the other, too
    store.execute(
        "UPDATE cases SET label = CASE label WHEN 'normal' THEN 'abnormal' ELSE 'normal' END "
        f"WHERE id IN ({_marks(len(changed))})", changed,
    )  # fmt: skip


def scores_flags_maps(store, rng, cases: list[int] | None = None) -> None:
    changed = never(store) if cases is None else cases
    for row in store.query(
        f"SELECT run, case_id, flagged FROM readings WHERE case_id IN ({_marks(len(changed))})", changed
    ):
        heat = rng.integers(0, 65535, (16, 16)).astype("<u2")
        score, part, flag = rng.random(), 100 * rng.random(), 1 - (row["flagged"] or 0)
        extra = json.dumps({"steady": [float(rng.random()), 0.1], "nearest": [[0, float(rng.random())]]})
        gone = rng.random() < 0.2
        store.execute(
            "UPDATE readings SET score = ?, score_roi = ?, percentile = ?, percentile_roi = ?, flagged = ?, "
            "flagged_roi = ?, map = ?, map_lo = ?, map_hi = ?, created = ?, extra = ? WHERE run = ? AND case_id = ?",
            [score, score, part, part, flag, flag, None if gone else zlib.compress(heat.tobytes()), 0.1, 0.2 + score,
             "2026-02-02T00:00:00.000Z", extra, row["run"], row["case_id"]],
        )  # fmt: skip
    for case in never(store):
        found = [float(rng.random()), "unlike annotated lesions", case]
        store.execute("UPDATE next_marks SET value = ?, why = ? WHERE case_id = ?", found)
    store.execute("DELETE FROM readings WHERE case_id = ? AND run = (SELECT max(run) FROM readings)", never(store)[:1])


def others_decisions(store, rng) -> None:
    for case in tested(store):
        for reader in ("ben", "joe"):
            for _ in range(int(rng.integers(0, 3))):
                decide(store, case, reader, str(rng.choice(decisions.DECISIONS)), comment=f"said {rng.random()}")


def others_findings(store, rng) -> None:
    for case in tested(store):
        for n in range(int(rng.integers(0, 3))):
            decisions.add_finding(asks(store, "ben", case_id=case), f"finding {n}", f"{rng.random()}")


def others_masks(store, rng) -> None:
    for case in tested(store):
        for _ in range(int(rng.integers(0, 3))):
            _draw(store, case, rng, "hand", "joe")


def imported_masks(store, rng, cases: list[int] | None = None) -> None:
    for case in never(store) if cases is None else cases:
        store.execute("DELETE FROM lesion_masks WHERE case_id = ? AND source = 'import'", [case])
        if rng.random() < 0.5:
            _draw(store, case, rng, "import", None)


def places_in_the_import(store, rng) -> None:
    """Imported masks are numbered and dated one after the other: of each, also of one that is shown after a decision,
    how many came before."""
    rows = store.query(
        "SELECT m.* FROM lesion_masks m JOIN cases c ON c.id = m.case_id WHERE c.study = ? AND m.source = 'import' "
        "ORDER BY m.id", [BLIND]
    )  # fmt: skip
    for more, row in zip(np.cumsum(rng.integers(1, 9, len(rows))), rows, strict=True):
        store.execute("DELETE FROM lesion_masks WHERE id = ?", [row["id"]])
        store.db["lesion_masks"].insert(
            {**row, "id": row["id"] + 10**6 + int(more), "created": f"2025-03-0{more % 9 + 1}"}
        )


def _draw(store, case: int, rng, source: str, reader: str | None) -> None:
    size = store.first("SELECT width, height FROM cases WHERE id = ?", [case])
    png = encode_mask((rng.random((size["height"], size["width"])) < 0.3).astype(np.uint8))
    last = store.first("SELECT coalesce(max(version), 0) AS n FROM lesion_masks WHERE case_id = ?", [case])["n"]
    store.db["lesion_masks"].insert(
        {"case_id": case, "version": last + 1, "source": source, "reader": reader, "created": "2026-03-03", "png": png,
         "note": "", "run": None, "threshold": None}
    )  # fmt: skip


def others_drafts(store, rng) -> None:
    for case in tested(store)[::2]:
        store.execute("INSERT OR REPLACE INTO mask_drafts VALUES (?, 'ben', ?, '2026-01-01')", [case, rng.bytes(40)])


def others_places(store, rng) -> None:
    for case in tested(store):
        if rng.random() < 0.5:
            row = [case, int(rng.random() < 0.5), rng.bytes(40), "2026-03-03"]
            store.execute("INSERT INTO case_marks VALUES (?, 'ben', ?, ?, ?)", row)


def arriving(store, rng) -> None:
    """Names of files that a watched folder holds, why some were left out, and when what it brought was scored."""
    store.execute("UPDATE watches SET changed = '2026-03-03' WHERE study = ?", [BLIND])
    row = {"study": BLIND, "size": 1, "mtime": 0, "since": 0, "at": "2026-03-03"}
    for number, state in enumerate(rng.choice(["taken", "waiting", "failed"], 5)):
        row |= {"path": f"abnormal-{number}-{rng.integers(10**9)}.png", "state": str(state), "note": f"{rng.random()}"}
        store.db["incoming"].insert(row)


def names_and_hashes(store, rng) -> None:
    """Of every case of the study: another name, another file of the same pixels, another hash."""
    for case in store.query("SELECT id, path FROM cases WHERE study = ?", [BLIND]):
        old = Path(case["path"])
        new = old.with_name(f"other-{rng.integers(10**9)}-{'x' * int(rng.integers(0, 9))}.png")
        cv2.imwrite(str(new), cv2.imread(str(old)), [cv2.IMWRITE_PNG_COMPRESSION, 0])
        old.unlink()
        sha = hashlib.sha256(new.read_bytes()).hexdigest()
        store.execute(
            "UPDATE cases SET name = ?, path = ?, sha256 = ?, phash = ?, patient = ? WHERE id = ?",
            [new.name, str(new), sha, f"{rng.integers(2**60):016x}", f"{rng.integers(2**60):032x}", case["id"]],
        )


def tags(store, rng, cases: list[int] | None = None) -> None:
    for case in never(store) if cases is None else cases:
        store.execute("UPDATE cases SET tags = ? WHERE id = ?", [json.dumps([f"kind {rng.integers(9)}"]), case])
    store.set_setting(f"tags:{BLIND}", ["kind 1", "kind 2", "odd"])


def burned_in_text(store, rng) -> None:
    store.execute(f"UPDATE cases SET burned_in = 1 WHERE id IN ({_marks(len(never(store)))})", never(store))


def events(store, rng) -> None:
    for case in tested(store):
        if rng.random() < 0.5:
            audit.record(store, "ben", "threshold", study=BLIND, case_id=case, after=float(rng.random()))


def evaluations(store, rng) -> None:
    for run in store.query("SELECT id FROM runs WHERE study = ?", [BLIND]):
        row = json.dumps({"auroc": float(rng.random())})
        store.db["evaluations"].insert({"study": BLIND, "run": run["id"], "created": "2026-01-01", "row": row})


def operating_points(store, rng) -> None:
    for run in store.query("SELECT id FROM runs WHERE study = ? AND binned IS NULL", [BLIND]):
        row = {"run": run["id"], "source": "readers", "threshold": float(rng.random()), "labels": 0, "reader": "root"}
        store.db["operating_points"].insert({**row, "created": "2026-01-01T00:00:00.000Z"})


def jobs_words(store, rng) -> None:
    """A job tells names where it fails, and figures against the labels where it makes a report."""
    said = f"AUROC {rng.random()}"
    store.execute("UPDATE jobs SET message = ?, error = ?", [said, f"abnormal-{rng.integers(10**9)}.png is damaged"])


HIDDEN: dict[str, Callable] = {
    "labels": labels,
    "scores, flags and heat maps": scores_flags_maps,
    "others' decisions and comments": others_decisions,
    "others' findings": others_findings,
    "others' masks": others_masks,
    "imported masks": imported_masks,
    "places of masks in the import": places_in_the_import,
    "others' drafts": others_drafts,
    "others' normal places": others_places,
    "files that come in, and when they were scored": arriving,
    "file names, hashes and patients": names_and_hashes,
    "tags": tags,
    "whether text is burned in": burned_in_text,
    "events of others": events,
    "figures against the labels": evaluations,
    "where operating points are, and who set them": operating_points,
    "what jobs say": jobs_words,
}


def begin_trial(homes: list, arm: str, reader: str = "ann") -> None:
    """In both homes a trial of the study, with a first list of `reader`'s in the arm: unaided, aided, or both (the
    machine after the decision). In the second home the truth of the open cases is different as well, and what the
    machine says: of all cases where the arm never shows it, of none where it always does.
    """
    given = {"name": "T", "readers": [reader, "ben"], "run": "", "washout": 0}
    given["design"] = {"both": "sequential", "aided": "crossover"}.get(arm, arm)
    for number, store in enumerate(homes):
        sessions.set_blind(store, BLIND, False, "root")
        given["run"] = store.first("SELECT min(id) AS id FROM runs WHERE study = ? AND binned IS NULL", [BLIND])["id"]
        if number:
            rng = np.random.default_rng(7)
            labels(store, rng, open_cases(store)[1:])
            imported_masks(store, rng, tested(store))
            tags(store, rng, tested(store))
        if number and arm == "unaided":
            scores_flags_maps(store, rng, tested(store))
        if number and arm == "aided":
            store.db["readings"].delete_where()
            store.db["readings"].insert_all(homes[0].query("SELECT * FROM readings"))
        plans = (plan.TrialPlan.from_dict({**given, "seed": seed}) for seed in itertools.count())
        chosen = next(one for one in plans if plan.parts_of(one)[reader][0] == arm)
        plan.start(store, plan.make(store, BLIND, chosen, "root"), "root")


class Work:
    """Counts what a request has the studio do, of each home: since wall time is noisy, what takes it is compared.

    Statements asked of the database, by how they begin; rows and bytes that came back; files of the home opened, by
    kind (the two homes' images are the same pixels in files of other names and lengths). compared: methods of requests
    in which a difference counts: all in the arms of a trial.
    """

    watched: Work | None = None

    def __init__(self, monkeypatch, dice: Dice):
        self.dice, self.compared = dice, ()
        self.done: dict[int, Counter] = {}
        self.roots: tuple[str, ...] = ()
        work, connect = self, sqlite3.connect

        class Cursor(sqlite3.Cursor):
            def _noted(self, rows: list) -> list:
                work.note("rows", len(rows))
                work.note("bytes", sum(len(v) for row in rows for v in row if isinstance(v, bytes)))
                return rows

            def fetchone(self):
                return next(iter(self._noted([row for row in [super().fetchone()] if row is not None])), None)

            def fetchall(self):
                return self._noted(super().fetchall())

            def __next__(self):
                return self._noted([super().__next__()])[0]

        class Connection(sqlite3.Connection):
            def __init__(self, *args, **options):
                super().__init__(*args, **options)
                # Without values, which SQLite writes into the text and which may count what others did (the number of
                # a review), and names of savepoints, which are drawn anew each time.
                self.set_trace_callback(lambda text: work.note(VALUES.sub("", " ".join(text.split()))[:40]))

            def cursor(self, factory=Cursor):
                return super().cursor(factory)

        monkeypatch.setattr(
            sqlite3, "connect", lambda *given, **options: connect(*given, **{**options, "factory": Connection})
        )
        if Work.watched is None:
            sys.addaudithook(Work.opened)  # which cannot be taken away again
        Work.watched = self

    @staticmethod
    def opened(event: str, given: tuple) -> None:
        work = Work.watched
        if event == "open" and work and isinstance(given[0], str) and given[0].startswith(work.roots):
            work.note(f"file {Path(given[0]).suffix}")

    def note(self, what: str, number: int = 1) -> None:
        counts = self.done.setdefault(self.dice.home, Counter())
        counts[what] += number

    def differing(self) -> str | None:
        """What one home had to do and the other had not, of the request that both have just answered."""
        one, other = (self.done.pop(home, Counter()) for home in (0, 1))
        return "\n".join(f"  {what}: {one[what]}, {other[what]}" for what in one | other if one[what] != other[what])


def _unless_gone(function: Callable, path: str, error: tuple) -> None:
    """A thread's last connection takes SQLite's files beside the database along when it closes, which may be now."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]


class Pair:
    """The two homes and servers. `reset()`: both as they were built; ask(...): one request to both."""

    def __init__(self, folder: Path, dice: Dice, work: Work, hidden: dict[str, Callable] = HIDDEN, seed: int = 0):
        self.dice, self.work, self.folder, Clock.seconds = dice, work, folder, NOW - 10**6
        folder.mkdir(exist_ok=True)
        if not (folder / "home").exists():
            build_home(folder)
        self.homes = [folder / "one", folder / "other"]
        self.kept = [folder / "one-kept", folder / "other-kept"]
        work.roots = tuple(map(str, self.homes))
        for number, kept in enumerate(self.kept):
            shutil.copytree(folder / "home", self.homes[number])
            store = opening.open(str(self.homes[number]))
            # Files were copied into the home: they lie in this one.
            old, new = str(folder / "home"), str(self.homes[number])
            store.execute("UPDATE cases SET path = replace(path, ?, ?)", [old, new])
            if number:
                rng = np.random.default_rng(seed)
                for change in hidden.values():
                    change(store, rng)
            self.ids = {study: tested(store, study) for study in (BLIND, OPEN)}
            self.decidable = set(open_cases(store)) | set(self.ids[OPEN])
            store.close()
            shutil.copytree(self.homes[number], kept)
        Clock.seconds, self.servers = NOW, []
        for number, home in enumerate(self.homes):
            dice.begin(number)
            GradioContext.id = 0  # Gradio numbers the parts of all pages of a process
            self.servers.append(whole_server(self._store(home)))
        self.differences: list[str] = []
        self.asked, self.compared = 0, Counter()  # answers, of all walks and of each way

    def _store(self, home: Path):
        return opening.open(str(home))

    def reset(self, reader: str = "ann") -> None:
        """Both homes as they were built, and `reader` signed in on both."""
        originals._digest.cache_clear()  # a file copied anew may have the number of one that is gone
        self.clients = []
        for number, (home, kept, server) in enumerate(zip(self.homes, self.kept, self.servers, strict=True)):
            ctx: Context = server.state.ctx
            ctx.store().close()
            shutil.rmtree(home, onerror=_unless_gone)
            shutil.copytree(kept, home)
            ctx._store, ctx._held = self._store(home), {}
            ctx.sessions._store = ctx.store()
            self.dice.begin(number)
            self.clients.append(visitor(server, reader, follow_redirects=False))
        self.counter = itertools.count(2)

    def close(self) -> None:
        for server in self.servers:
            server.state.ctx.store().close()

    def own_number(self, number: int, reader: str) -> int | None:
        """The case's own number, of one as the page knows it. Asked of both homes: it may be what makes an order."""
        found = []
        for home, server in enumerate(self.servers):
            self.dice.home = home
            try:
                context = asks(server.state.ctx.store(), reader, number=number)
                found.append(context.asked_case["id"])
            except ValueError:
                found.append(None)
        assert found[0] == found[1]
        return found[0]

    def ask(self, method: str, path: str, **given) -> tuple[object, str | None]:
        """The first server's answer, and what differs in the second one's, or in the work for it, or None."""
        seed, answers = next(self.counter), []
        self.work.done.clear()
        for number, client in enumerate(self.clients):
            self.dice.seed(seed, number)
            answers.append(client.request(method, path, **given))
        self.asked += 1
        work = self.work.differing() if method in self.work.compared else None
        one, other = answers
        for what in ("status_code", "content"):
            if getattr(one, what) != getattr(other, what):
                return one, f"{method} {path} {given}: {what}\n{_differing(getattr(one, what), getattr(other, what))}"
        if one.headers.raw != other.headers.raw:
            return one, f"{method} {path} {given}: headers\n  {one.headers.raw}\n  {other.headers.raw}"
        if work:
            return one, f"{method} {path} {given}: work\n{work}"
        return one, None

    def call(self, number: int, data: list) -> list:
        """What Gradio's function of that number gives on both servers, as its queue calls it for the reader."""
        outputs, seed = [], next(self.counter)
        self.asked += 1
        for home, (server, client) in enumerate(zip(self.servers, self.clients, strict=True)):
            self.dice.seed(seed, home)
            query = "&".join(f"{name}={value}" for name, value in zip(("study", "tab"), data, strict=False) if value)
            cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
            scope = {"type": "http", "headers": [(b"cookie", cookie.encode())], "query_string": query.encode()}
            asked = gr.Request(request=Request(scope))
            fn = server.state.ctx.demo.fns[number].fn
            arguments = special_args(fn, list(data), request=asked)[0]
            try:
                given = fn(*arguments)
                outputs.append(repr(awaited(given) if inspect.iscoroutine(given) else given))
            except (ValueError, TypeError, gr.Error) as error:
                outputs.append(f"refused: {error}")
        return outputs


def _differing(one, other) -> str:
    """Both answers from a little before the first place where they differ."""
    if not isinstance(one, bytes):
        return f"  {one}\n  {other}"
    first = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return "\n".join(f"  ...{text[max(first - 90, 0) : first + 90]!r}" for text in (one, other))
