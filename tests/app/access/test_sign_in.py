"""Signing in and out, and one's own password: guesses wait, and a new password ends the other sessions."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from argon2 import PasswordHasher
from fastapi import FastAPI
from fastapi.testclient import TestClient

from app.access.sessions import KEY_BYTES, Sessions, read_key
from app.access.sign_in import FORGOTTEN, FREE, FREE_ADDRESS, LONGEST, Attempts, Busy, Door, HashingPool, sign_in_router
from app.context import Context
from app.server import config_of
from core.studio.db import audit, opening
from core.studio.review import people
from tests.app.routes.clients import PASSWORD, visitor, whole_server
from tests.loops import run_apart
from tests.studio.review.conftest import room  # noqa: F401


@pytest.fixture
def door(tmp_path):
    """(store, sessions, client()): the sign-in routes alone; each client is another browser at one address."""
    store = opening.open(str(tmp_path / "home"))
    people.add_reader(store, "Ada", PASSWORD)
    ctx = Context(home=store.home, single_user=False, _store=store)
    ctx.sessions = Sessions(store)
    server = FastAPI()
    server.include_router(sign_in_router(Door(ctx, Attempts(lambda: 1000.0))))

    yield store, ctx.sessions, lambda: TestClient(server, follow_redirects=False)
    store.close()


def enter(client, password: str = PASSWORD, name: str = "Ada", where: str = "/sign-in"):
    return client.post(where, data={"name": name, "password": password})


def test_in_and_out(door):
    _, sessions, browser = door
    client = browser()
    answer = enter(client, where="/sign-in?next=/%3Ftab=review")
    assert answer.status_code == 303 and answer.headers["location"] == "/?tab=review"
    cookie = client.cookies[sessions.COOKIE]
    assert sessions.name_of(cookie) == "Ada"
    flags = answer.headers.get_list("set-cookie")
    assert len(flags) == 2 and all("HttpOnly" in f and "SameSite=strict" in f for f in flags)
    assert client.post("/sign-out").status_code == 303
    assert sessions.name_of(cookie) is None, "a copy of the cookie is of no use after signing out"
    assert sessions.COOKIE not in client.cookies and sessions.KNOWN in client.cookies


@pytest.mark.parametrize("wanted", ["//evil.example", "/\\evil.example", "https://evil.example"])
def test_nobody_is_sent_elsewhere(door, wanted):
    assert enter(door[2](), where=f"/sign-in?next={wanted}").headers["location"] == "/"


def test_wrong_passwords_wait_but_the_owners_browser_does_not(door):
    _, _, browser = door
    owner, stranger = browser(), browser()
    assert enter(owner).status_code == 303
    assert [enter(stranger, "guess").status_code for _ in range(FREE)] == [401] * FREE
    held = enter(stranger, PASSWORD)
    assert held.status_code == 429 and "Try again in 1 second." in held.text and held.headers["retry-after"] == "1"
    assert enter(owner).status_code == 303, "the same address and account, but a browser that was signed in before"


def test_a_password_changed_while_it_was_checked_opens_no_session(door, monkeypatch):
    store, _, browser = door
    real = people.verify

    def slow(*asked):
        right = real(*asked)
        people.add_reader(store, "Ada", "another password")
        return right

    monkeypatch.setattr(people, "verify", slow)
    assert enter(browser()).status_code == 401
    assert store.query("SELECT * FROM sessions") == []


def test_a_hash_of_less_work_is_renewed_at_sign_in_and_lets_in(door, monkeypatch):
    store, _, browser = door
    monkeypatch.setattr(people, "_HASHER", PasswordHasher(time_cost=1, memory_cost=16, parallelism=1))
    before = people.password_mark(store, "Ada")
    assert enter(browser()).status_code == 303
    assert people.password_mark(store, "Ada") != before and enter(browser()).status_code == 303


@pytest.mark.parametrize("body", [b"", b"name=Ada", b"\xff\xfe", b"name=" + b"x" * 5000, b"password=" + b"x" * 5000])
def test_odd_forms_are_wrong_passwords(door, body):
    answer = door[2]().post("/sign-in", content=body)
    assert answer.status_code == 401 and "name or the password is wrong" in answer.text


def test_few_passwords_are_hashed_at_once_and_few_wait():
    pool, release, entered = HashingPool(workers=1, queue=2), threading.Event(), threading.Event()

    def work():
        entered.set()
        assert release.wait(30)
        return threading.current_thread().name

    async def crowd():
        waiting = [asyncio.ensure_future(pool.run(work)) for _ in range(3)]
        await asyncio.get_running_loop().run_in_executor(None, entered.wait, 30)
        with pytest.raises(Busy):
            await pool.run(work)
        release.set()
        names = await asyncio.gather(*waiting)
        return names, await pool.run(work)

    names, after = run_apart(crowd())
    assert len({*names, after}) == 1, "one thread, and there is room again afterwards"


def test_a_crowd_at_the_door_is_asked_to_come_back(door, monkeypatch):
    async def full(self, work):
        raise Busy

    monkeypatch.setattr(HashingPool, "run", full)
    client = door[2]()
    answers = [enter(client) for _ in range(3 * FREE)]
    assert {a.status_code for a in answers} == {503} and "in a moment" in answers[0].text, "these are no misses"


@pytest.mark.parametrize("proxy", [False, True])
def test_who_asks_is_the_connection_unless_a_proxy_stands_before_it(door, proxy):
    config = config_of(door[2]().app, "127.0.0.1", 7860, proxy)
    config.load()
    client = TestClient(config.loaded_app, client=("127.0.0.1", 5000), follow_redirects=False)
    guesses = [
        client.post("/sign-in", data={"name": "Ada", "password": "wrong"}, headers={"X-Forwarded-For": f"10.0.0.{n}"})
        for n in range(FREE + 2)
    ]
    assert [g.status_code for g in guesses] == [401] * FREE + ([401, 401] if proxy else [429, 429])


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_the_wait_doubles_and_has_an_end(clock):
    attempts = Attempts(clock)
    assert [attempts.begin("a", "Ada") for _ in range(FREE)] == [0.0] * FREE
    waits = []
    for _ in range(12):
        waits.append(attempts.begin("a", "Ada"))
        clock.now += waits[-1]
        assert attempts.begin("a", "Ada") == 0.0, "once it has passed, one more try"
    assert waits == [min(LONGEST, 2.0**n) for n in range(12)]
    clock.now += FORGOTTEN + 1
    assert attempts.begin("a", "Ada") == 0.0 and attempts.begin("a", "Ada") == 0.0


def test_guesses_at_once_do_not_race(clock):
    attempts, start = Attempts(clock), threading.Barrier(40)

    def guess(_):
        start.wait()
        return attempts.begin("a", "Ada")

    with ThreadPoolExecutor(40) as threads:
        admitted = [wait for wait in threads.map(guess, range(40)) if wait == 0.0]
    assert len(admitted) == FREE


def test_a_stranger_does_not_lock_out_the_owner(clock):
    attempts = Attempts(clock)
    for _ in range(FREE):
        attempts.begin("stranger", "Ada")
    assert attempts.begin("stranger", "Ada") > 0
    assert attempts.begin("home", "Ada") == 0.0, "another address"
    assert attempts.begin("stranger", "Ada", browser="known") == 0.0, "the owner's own browser behind the same address"
    for _ in range(FREE - 1):
        attempts.begin("stranger", "Ada", browser="known")
    assert attempts.begin("stranger", "Ada", browser="known") > 0, "a stolen browser is held up by itself"
    assert attempts.begin("home", "Ada") == 0.0


def test_an_address_that_tries_many_accounts_waits_for_all(clock):
    attempts = Attempts(clock)
    assert [attempts.begin("a", f"reader {n}") for n in range(FREE_ADDRESS)] == [0.0] * FREE_ADDRESS
    assert attempts.begin("a", "another") > 0


def test_right_passwords_do_not_count(clock):
    attempts = Attempts(clock)
    for n in range(3 * FREE_ADDRESS):
        assert attempts.begin("clinic", f"reader {n}") == 0.0
        attempts.succeeded("clinic", f"reader {n}")
    for _ in range(FREE - 1):
        attempts.begin("clinic", "Ada")
    attempts.begin("clinic", "Ada")
    attempts.succeeded("clinic", "Ada")
    assert [attempts.begin("clinic", "Ada") for _ in range(FREE)] == [0.0] * FREE


def test_a_try_that_was_not_answered_does_not_count(clock):
    attempts = Attempts(clock)
    for _ in range(3 * FREE):
        assert attempts.begin("a", "Ada") == 0.0
        attempts.withdraw("a", "Ada")


@pytest.fixture
def store(tmp_path):
    store = opening.open(str(tmp_path / "home"))
    people.add_reader(store, "Ada", "a long password")
    yield store
    store.close()


@pytest.mark.parametrize("found", [None, b"", b"short"])
def test_a_key_that_is_absent_or_too_short_is_made_anew(tmp_path, found):
    path = tmp_path / "session.key"
    if found is not None:
        path.write_bytes(found)
    key = read_key(path)
    assert len(key) >= KEY_BYTES and read_key(path) == key, "and kept from then on"
    assert path.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == [path]


def test_cookies_cannot_be_made_up_or_altered(store, tmp_path):
    ours = Sessions(store)
    good = ours.start("Ada")
    assert ours.name_of(good) == "Ada"
    assert Sessions(store).name_of(good) == "Ada", "a restart signs nobody out"
    assert ours.name_of(good[:-4] + "AAAA") is None
    assert ours.name_of(None) is None and ours.name_of("nonsense!") is None and ours.name_of("ü.ü") is None
    (tmp_path / "home" / "session.key").unlink()
    assert Sessions(store).name_of(good) is None, "another key"


def test_the_mark_of_a_known_browser_is_for_one_reader_and_password(store):
    people.add_reader(store, "Ben", "a long password")
    sessions = Sessions(store)
    mark = sessions.mark_browser("Ada")
    assert sessions.known_browser(mark, "Ada") and sessions.known_browser(mark, "Ben") is None
    assert sessions.known_browser(mark[:-3] + "AAA", "Ada") is None and sessions.known_browser(None, "Ada") is None
    assert sessions.name_of(mark) is None, "it is no session"
    people.add_reader(store, "Ada", "another password")
    assert sessions.known_browser(mark, "Ada") is None


NEW = "another long password"


@pytest.fixture
def served(room):  # noqa: F811
    store, _ = room
    people.add_reader(store, "ann", PASSWORD, "adjudicator")
    return store, whole_server(store)


def ask(client: TestClient, old: str, new: str = NEW, again: str | None = None):
    return client.post("/password", data={"old": old, "new": new, "again": new if again is None else again})


@pytest.mark.slow
def test_it_is_changed_and_this_browser_alone_stays_signed_in(served):
    store, server = served
    here, there = visitor(server, "ann"), visitor(server, "ann")
    form = here.get("/password")
    assert "<strong>ann</strong>" in form.text and form.headers["cache-control"] == "no-store"
    answer = ask(here, PASSWORD)
    assert answer.status_code == 200 and "has been changed" in answer.text and NEW not in answer.text
    assert here.get("/api/status").status_code == 200 and there.get("/api/status").status_code == 401
    assert people.verify(store, "ann", NEW) and not people.verify(store, "ann", PASSWORD)
    assert people.role_of(store, "ann") == "adjudicator"
    event = next(event for event in audit.trail(store) if event["kind"] == "password")
    assert (event["who"], event["after"]) == ("ann", {"reader": "ann"}) and audit.verify(store)["ok"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "again", "said"),
    [
        ("a wrong one", NEW, NEW, "That is not the current password."),
        (PASSWORD, NEW, "something else", "differ"),
        (PASSWORD, "short", "short", "at least 8 characters"),
        (PASSWORD, PASSWORD, PASSWORD, "The new password must differ from the old one."),
        (PASSWORD, "x" * 2000, "x" * 2000, "at most 1024"),
    ],
)
def test_what_is_refused_says_why_and_changes_nothing(served, old, new, again, said):
    store, server = served
    client = visitor(server, "ann")
    answer = ask(client, old, new, again)
    assert answer.status_code in (400, 401) and said in answer.text
    assert people.verify(store, "ann", PASSWORD) and client.get("/api/status").status_code == 200


def test_nobody_guesses_by_it(served):
    _, server = served
    client = visitor(server, "ann")
    tries = [ask(client, "guess") for _ in range(FREE + 6)]  # the waits double: even slow hashing meets one
    assert [answer.status_code for answer in tries[:FREE]] == [401] * FREE
    held = next(answer for answer in tries if answer.status_code == 429)
    assert int(held.headers["retry-after"]) >= 1 and "Too many wrong passwords" in held.text


def test_an_account_removed_meanwhile_gets_no_session(served, monkeypatch):
    store, server = served
    client, real = visitor(server, "ann", follow_redirects=False), people.verify

    def slow(*asked):
        right = real(*asked)
        people.remove_reader(store, "ann")
        return right

    monkeypatch.setattr(people, "verify", slow)
    assert ask(client, PASSWORD).headers["location"] == "/sign-in"
    assert store.query("SELECT * FROM sessions") == [] and not real(store, "ann", NEW)


@pytest.mark.slow
def test_strangers_sign_in_first_and_one_user_has_none(served):
    store, server = served
    assert visitor(server).get("/password").status_code == 401
    alone = visitor(whole_server(store, single_user=True), follow_redirects=False)
    assert alone.get("/password").headers["location"] == "/" and ask(alone, "x").headers["location"] == "/"
