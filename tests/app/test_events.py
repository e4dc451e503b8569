"""What is stored shows by itself: one stream a browser, shared by its tabs; a lost connection says so and heals."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
import uvicorn

from app.routes import _changes, status
from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.review import masks, people, sessions
from core.studio.runs import readings
from tests.app.conftest import STUDY, Served
from tests.app.routes.clients import whole_server
from tests.conftest import few, wait
from tests.studio.review.conftest import add_readings, asks, decide, draw_folder, save_mask

REVIEW = "document.querySelector('.widget-review')?.review"
STREAMS = """window.streams = []; const Native = EventSource;
window.EventSource = class extends Native { constructor(url) { super(url); window.streams.push(this); } };"""


class Streams:
    """A server with sign-in, in this process: `of(reader)` opens a stream of the reader's, as an iterator of events."""

    def __init__(self, home):
        self.store = opening.open(str(home))
        studies.import_study(self.store, "room", draw_folder(home.parent / "images"), copy=True)
        self.run = add_readings(self.store, "room", "padim")
        for name, role in (("ann", "reader"), ("ben", "reader"), ("root", "administrator")):
            people.add_reader(self.store, name, "a long password", role)
        built = whole_server(self.store)
        self.ctx = built.state.ctx
        self.server = uvicorn.Server(uvicorn.Config(built, port=0, log_level="error", timeout_graceful_shutdown=2))
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        wait(lambda: self.server.started)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)

    @contextlib.contextmanager
    def of(self, headers: dict) -> Iterator[Iterator[tuple[str, str]]]:
        with self.client.stream("GET", "/api/status/events", headers=headers) as answer:
            assert answer.status_code == 200
            yield self._events(answer.iter_lines())

    @staticmethod
    def _events(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
        name = ""
        for line in lines:
            key, _, value = line.partition(": ")
            if key == "event":
                name = value
            elif key == "data":
                yield name, value

    def signed_in(self, reader: str) -> dict:
        return {"Cookie": f"{self.ctx.sessions.COOKIE}={self.ctx.sessions.start(reader)}"}

    def case(self) -> int:
        return self.store.first("SELECT min(id) AS id FROM cases WHERE split = 'test'")["id"]

    def score(self) -> None:
        """A reading of the case is stored anew."""
        columns = "SELECT * FROM readings WHERE run = ? AND case_id = ?"
        readings.write_readings(self.store, self.store.query(columns, [self.run, self.case()]))

    def close(self) -> None:
        self.client.close()
        self.server.should_exit = True
        self.thread.join(20)
        assert not self.thread.is_alive()
        self.store.close()


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_changes, "LIFE", 600.0)
        patch.setattr(_changes, "PAUSE", 0.05)
        patch.setattr(_changes, "BEAT", 0.5)
        opened = Streams(tmp_path_factory.mktemp("events") / "home")
        yield opened
        opened.close()


def next_status(events: Iterator[tuple[str, str]]) -> dict:
    return next(json.loads(text) for name, text in events if name == "status")


@pytest.mark.slow
def test_the_stream_says_what_is_stored_and_holds_nothing_back(streams):
    with streams.of(streams.signed_in("ann")) as anns, streams.of(streams.signed_in("root")) as roots:
        before = next_status(anns)
        assert next_status(roots)["runs"] == before["runs"] and before["drafts"] == {}
        # The log can be emptied while a stream is open: it reads in no transaction.
        with sqlite3.connect(streams.store.home.db) as db:
            assert db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        streams.score()
        after = next_status(anns)
        assert after["runs"] != before["runs"] and next_status(roots) == after
        masks.keep_draft(asks(streams.store, "ann", case_id=streams.case()), b"a drawing")
        drawn = next_status(anns)
        assert drawn["drafts"].keys() == {"room"} and drawn["runs"] == after["runs"]
        streams.score()
        last = next_status(roots)
        assert last["runs"] != after["runs"] and last["drafts"] == {}, "another reader's drawing is no event"


@pytest.mark.slow
def test_what_others_do_and_scores_are_no_event_to_whoever_reads_blind(streams, monkeypatch):
    """Nor in a study of which a reader takes part in nothing: whoever reads any study blind hears of no score."""
    asked, standing = [], status._standing
    monkeypatch.setattr(
        status, "_standing", lambda ctx, who: (asked.append((who, found := standing(ctx, who))), found)[1]
    )
    store, case = streams.store, streams.case()
    sessions.set_blind(store, "room", True, "root")
    try:
        with streams.of(streams.signed_in("ann")) as events:
            first = next_status(events)
            assert first["runs"] == {} and first["drafts"] == {} and first["ended"] is None
            for hidden in (
                lambda: decide(store, case, "root", "abnormal"),
                lambda: save_mask(store, case, np.ones((60, 72), np.uint8), "root"),
                streams.score,
                lambda: add_readings(store, "room", "nearest", 1),
                lambda: masks.keep_draft(asks(store, "root", case_id=case), b"a drawing"),
            ):
                hidden()
                done = len(asked)
                wait(lambda done=done: len(asked) > done + 1)  # asked twice since: the second began after it was stored
            assert all(found == asked[0][1] for _, found in asked)
            store.execute("INSERT INTO studies (id, name, created) VALUES ('later', 'later', '2026-01-01')")
            assert next_status(events) == {**first, "studies": ["later", "room"]}, "the next event"
    finally:
        store.execute("DELETE FROM studies WHERE id = 'later'")
        sessions.set_blind(store, "room", False, "root")


@pytest.mark.slow
def test_a_stream_ends_with_the_session_the_token_the_account_and_the_server(streams):
    store, ctx = streams.store, streams.ctx
    cookie = streams.signed_in("ann")
    token = people.make_token(store, "ann", "script")
    with streams.of(cookie) as events:
        next(events)
        assert streams.client.post("/sign-out", headers=cookie).status_code == 303
        assert {name for name, _ in events} <= {"beat", "status"}  # to its end
    with streams.of({"Authorization": f"Bearer {token}"}) as events:
        next(events)
        people.revoke_tokens(store, "ann", "ann")
        list(events)
    with streams.of(streams.signed_in("ben")) as events:
        next(events)
        people.remove_reader(store, "ben")
        list(events)
    assert streams.client.get("/api/status/events", headers=cookie).status_code == 401
    looks = lambda: [t for t in threading.enumerate() if t.name == "changes"]  # noqa: E731
    wait(lambda: not looks())  # nobody listens
    changes = ctx.held(_changes.Changes)
    with streams.of(streams.signed_in("root")) as events:
        next(events)
        wait(looks)
        changes.close()
        list(events)
    wait(lambda: not looks())
    changes.closed = False


@pytest.mark.slow
def test_a_reader_has_so_many_streams_and_no_more(streams, monkeypatch):
    few(monkeypatch, "stream", 3)
    cookie, ask = streams.signed_in("ann"), streams.client.get
    with contextlib.ExitStack() as opened:
        kept = [opened.enter_context(streams.of(cookie)) for _ in range(3)]  # one that nobody holds is closed
        assert all(next(events) for events in kept)
        refused = ask("/api/status/events", headers=cookie)
        assert refused.status_code == 429 and "close one of them" in refused.json()["error"]
        assert ask("/api/status", headers=cookie).status_code == 200
        with streams.of(streams.signed_in("root")) as others:
            next(others)
    wait(lambda: streams.ctx.held(_changes.Changes)._streams["ann"] < 3)
    with streams.of(cookie) as events:
        next(events)


@pytest.fixture
def own(own_home):
    """A server on a home of its own, whose study has scores."""
    home = own_home("events")
    scored = opening.open(str(home))
    add_readings(scored, STUDY, "padim")
    scored.close()
    server = Served(home)
    yield server
    server.stop()


@pytest.mark.long
def test_a_score_shows_when_it_is_stored_in_all_tabs_of_one_stream(browser, own):
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    context.add_init_script(STREAMS)
    tabs = [context.new_page() for _ in range(2)]
    store = opening.open(str(own.home))
    row = store.first("SELECT * FROM readings WHERE case_id = (SELECT min(id) FROM cases WHERE split = 'test')")
    case = row["case_id"]
    store.execute("DELETE FROM readings WHERE case_id = ?", [case])
    score = f"document.querySelector(`.rv-row[data-id='{case}'] .rv-pct`)?.textContent"
    for page in tabs:
        page.goto(f"{own.url}?study={STUDY}&tab=review&case={case}")
        page.wait_for_function(f"{REVIEW}?.detail?.id === {case} && /^\\D+$/.test({score})", timeout=60_000)
    readings.write_readings(store, [row])
    store.close()
    for page in tabs[::-1]:  # the one behind shows it when it comes into sight
        page.bring_to_front()
        page.wait_for_function(f"/\\d/.test({score}) && {REVIEW}.detail.readings['{row['run']}']", timeout=60_000)
    opened = "window.streams.filter((s) => s.url.endsWith('/api/status/events') && s.readyState < 2).length"
    assert sorted(page.evaluate(opened) for page in tabs) == [0, 1], "one stream a browser"
    leader = next(page for page in tabs if page.evaluate(opened))
    leader.close()
    (left,) = (page for page in tabs if page is not leader)
    left.wait_for_function(f"{opened} === 1")
    context.close()


@pytest.mark.long
def test_a_lost_connection_says_so_and_heals(browser, own):
    page = browser.new_page()
    page.goto(f"{own.url}?study={STUDY}&tab=review")
    page.wait_for_function(f"{REVIEW}?.detail", timeout=60_000)
    with page.expect_response("**/warning", timeout=60_000):  # the last that it asks for
        page.locator("#tab-results-button").click()
    page.locator("#tab-review-button").click()
    own.process.terminate()
    assert own.process.wait(10) == 0, "a server that is asked to end waits for no stream"
    page.locator("#connection").filter(has_text="Connection lost").wait_for()
    page.locator("#tab-results-button").click()
    gone = page.locator(".rs-page").get_by_text("The studio does not answer")
    gone.wait_for()
    own.start(int(own.url.rstrip("/").rpartition(":")[2]))
    page.wait_for_function("document.querySelector('#connection').textContent === ''", timeout=60_000)
    gone.wait_for(state="detached", timeout=60_000)  # without another click
    page.close()
