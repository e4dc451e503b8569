"""Two homes that differ only in what is hidden answer alike, byte for byte, whatever a blind reader asks; in a trial
they also do the same work for each answer, so that nothing takes longer than it would."""

from __future__ import annotations

import base64
import os
import random

import cv2
import numpy as np
import pytest
from fastapi import APIRouter
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from app.access import permissions
from app.access.permissions import Reader, Studio
from app.routes import segment
from core.studio.ingest.originals import Source
from core.studio.jobs import queue
from core.studio.medmix import probe
from core.studio.review import boxes, sessions
from tests.app.blindness.pair import BLIND, OPEN, Dice, Pair, Work, begin_trial
from tests.app.blindness.requests import Values, draw_request

PAGES = ["/config", "/gradio_api/info", "/", "/openapi.json", "/theme.css", "/sign-in", "/tokens", "/password", "/tour"]
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH")
BITS = b"\x0f" * (72 * 60 // 8)


class Walk:
    """Requests of one reader to a pair of homes."""

    def __init__(self, pair: Pair, reader: str, pick, kept: tuple[str, ...] = ()):
        """kept: addresses that are not asked."""
        self.pair, self.reader, self.pick = pair, reader, pick
        spec = pair.clients[0].get("/openapi.json").json()
        self.operations = {
            f"{method.upper()} {path}": about for path, ways in spec["paths"].items() for method, about in ways.items()
        }
        rows = sorted(row for row in self.operations if row.split(" ")[1] not in kept)
        self.rows = rows + 4 * [r for r in rows if self.operations[r]["security"][0]["session"] == ["reader"]]
        store = pair.servers[0].state.ctx.store()
        pools = {
            "study": [*4 * [BLIND], OPEN, OPEN, OPEN, "", "none", BLIND.upper(), f"{BLIND} ", "ｏpenly"],
            "run": [r["id"] for r in store.query("SELECT id FROM runs")] + ["", "none"],
            "case": [*pair.ids[OPEN], *pair.ids[BLIND]],
            "id": [r["id"] for r in store.query("SELECT id FROM lesion_masks")] + [999],
            "finding": [r["id"] for r in store.query("SELECT id FROM findings")][:6],
            "session": [1, 2, 3, 4],
            "size": [0, 16, 72, 192],
            "count": [0, 1, 3],
            "format": ["svg", "csv"],
            "kind": ["csv", "coco", "png", "dicom-seg", "dicom-map", "dicom-sr", "cvat", "bundle", "scores"],
            "choice": ["all", "unread", "assigned", "flagged", "against"],
            "name": ["ann", "ben", "x"],
            "encoder": ["", "latest"],
            "image": [base64.b64encode(cv2.imencode(".png", np.zeros((9, 9, 3), np.uint8))[1].tobytes()).decode()],
        }
        self.values = Values(pools, spec["components"]["schemas"])
        self.decidable = pair.decidable
        self.statuses: dict[tuple, int] = {}
        functions = pair.servers[0].state.ctx.demo.fns
        self.functions = [n for n, fn in functions.items() if fn.fn is not None]

    def ask(self, method: str, address: str, **given):
        answer, difference = self.pair.ask(method, address, **given)
        if difference is not None:
            raise AssertionError(difference)
        assert answer.status_code < 500 or address == "/gradio_api/run/predict", (
            f"{method} {address} {given} {answer.text[:500]}"
        )
        key = (method, address.split("?")[0].split("/")[2:4].__str__(), answer.status_code)
        self.statuses[key] = self.statuses.get(key, 0) + 1
        if method != "HEAD" and answer.headers.get("content-type", "").startswith("application/json"):
            self.values.note(answer.json())
        if "etag" in answer.headers:
            self.values.pools.setdefault("etag", []).append(answer.headers["etag"])
        return answer

    def step(self) -> None:
        if self.pick([True] + [False] * 24):
            return self.gradio()
        row = self.pick(self.rows)
        method, address, given = draw_request(self.pick, self.values, row, self.operations[row], BITS)
        if not self._keeps_hidden(given.get("json")):
            return None
        self.ask(method, address, **given)

    def _keeps_hidden(self, body) -> bool:
        """Whether no decision is made in a request on a case whose hidden facts differ."""
        if not isinstance(body, dict) or "decision" not in body or not isinstance(body.get("case"), int):
            return True
        own = self.pair.own_number(body["case"], self.reader)
        return own is None or own in self.decidable

    def gradio(self) -> None:
        """One of Gradio's functions: asked of its address, and called as its queue calls it; and one of its pages."""
        number = self.pick(self.functions)
        fn = self.pair.servers[0].state.ctx.demo.fns[number]
        data = [self.pick([None, BLIND, OPEN, f"{BLIND}#1", "none"]) for _ in fn.inputs]
        body = {"data": data, "fn_index": number, "session_hash": "walk"}
        self.ask("POST", self.pick(["/gradio_api/run/predict", "/gradio_api/queue/join"]), json=body)
        one, other = self.pair.call(number, data)
        assert one == other, f"Gradio's function {fn.name} {data}:\n  {one}\n  {other}"
        self.ask("GET", self.pick(PAGES))


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue, "ensure_worker", lambda store: [])
        # Networks take most of a walk's time; what goes into them and comes out of them is checked all the same.
        patch.setattr(segment, "segment", lambda store, case, *given: Source.of(case).image().mean(2) > 120)
        patch.setattr(probe, "_features", lambda encoder, images: images.flatten(2).mean(2).numpy())
        patch.setattr(boxes.EMBEDDINGS, "ahead", lambda sources: None)  # works on beside the next requests
        dice = Dice(patch)
        made = Pair(tmp_path_factory.mktemp("pair"), dice, Work(patch, dice))
        yield made
        made.close()


def walk(pair: Pair, way: str, pick, steps: int) -> Walk:
    """`steps` requests of a reader: of `reader`, who reads one study blind; of `other`, who has read nothing and asks
    of both; of `session`, in a blind session of their own where nothing else is blind; of the arms of a trial."""
    reader = "eve" if way == "other" else "ann"
    pair.reset(reader)
    kept: tuple[str, ...] = ()
    pair.work.compared = METHODS if way in ARMS else ()
    if way in ARMS:
        begin_trial([server.state.ctx.store() for server in pair.servers], way)
        pair.ask("POST", "/api/trials/open", json={"trial": 1})
    if way == "session":
        for server in pair.servers:
            sessions.set_blind(server.state.ctx.store(), BLIND, False, "root")
        pair.ask("POST", "/api/reading/start", json={"study": BLIND})
        kept = ("/api/reading/start", "/api/reading/end")  # the session goes on: ended, it may show what it hid
    made = Walk(pair, reader, pick, kept)
    if way in ("unaided", "aided"):  # a decision opens nothing
        made.decidable = {*pair.ids[BLIND], *pair.ids[OPEN]}
    begun = pair.asked
    try:
        for _ in range(steps):
            made.step()
        made.ask("GET", "/api/status/events")  # whatever was drawn
    finally:
        pair.compared[way] += pair.asked - begun
        print(f"{way}: {pair.compared[way]:,} answers compared")
    return made


def property_of(examples: int, steps: int, seeds: int | None = None):
    """A test of so many walks of so many requests; seeds: of the walks, None for the same ones each time."""

    def of(test):
        chosen = settings(
            max_examples=examples, deadline=None, derandomize=seeds is None, database=None,
            suppress_health_check=list(HealthCheck), phases=(Phase.generate,),
        )  # fmt: skip

        def draw(pair, way, draws):
            walk(pair, way, draws.choice, steps)

        draw.__name__, draw.__doc__ = test.__name__, test.__doc__
        return chosen(given(draws=st.randoms(use_true_random=False))(draw))

    return of


ARMS = ("unaided", "aided", "both")
WAYS = ("reader", "other", "session", *ARMS)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@property_of(examples=4, steps=42)
def test_homes_that_differ_in_what_is_hidden_answer_alike():
    """Some 500 requests of the three readers."""


@pytest.mark.longest
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("way", WAYS)
@property_of(examples=int(os.environ.get("PMSACL_WALKS", "40")), steps=100, seeds=1)
def test_long_walks_find_no_difference():
    """24,000 requests, others each time unless `--hypothesis-seed` says which; PMSACL_WALKS: how many walks of each."""


def counts_labels(store, study: str):
    return store.query("SELECT group_concat(label) AS n FROM cases WHERE study = ? ORDER BY id", [study])


def asks_more_of_abnormal_ones(store, study: str):
    for row in store.query("SELECT id, label FROM cases WHERE study = ? AND split = 'test'", [study]):
        if row["label"] == "abnormal":
            store.query("SELECT * FROM lesion_masks WHERE case_id = ?", [row["id"]])
    return []


@pytest.mark.parametrize(
    ("does", "way", "what"), [(counts_labels, "reader", "content"), (asks_more_of_abnormal_ones, "unaided", "work")]
)
def test_a_route_that_comes_later_joins_the_walk(pair, does, way, what):
    """One that counts labels, or takes longer by them, is found out, although nothing here names it."""
    later = APIRouter()

    @later.get("/api/later/{study}")
    def count(ctx: Studio, who: Reader, study: str):
        """Count what is hidden."""
        return does(ctx.store(), study)

    servers = pair.servers
    kept = [list(server.router.routes) for server in servers]
    try:
        for server in servers:
            permissions.include(server, later)
            server.router.routes.insert(0, server.router.routes.pop())
            server.openapi_schema = None
        made = walk(pair, way, random.Random(0).choice, 0)
        made.rows = [row for row in made.rows if "/later/" in row]
        with pytest.raises(AssertionError, match=f"GET /api/later/[^ ]* .*: {what}"):
            for _ in range(30):
                made.step()
    finally:
        for server, routes in zip(servers, kept, strict=True):
            server.router.routes[:], server.openapi_schema = routes, None


def test_each_entry_of_the_list_is_changed_in_the_second_home(pair):
    """None of them is there in name alone: what each changes is different in the two databases."""
    pair.reset()
    one, other = (server.state.ctx.store() for server in pair.servers)
    for table in ("cases", "readings", "reviews", "findings", "lesion_masks", "mask_drafts", "events", "evaluations",
                  "case_tags", "operating_points", "case_marks", "incoming", "next_marks", "jobs"):  # fmt: skip
        assert one.query(f"SELECT * FROM {table}") != other.query(f"SELECT * FROM {table}"), table
    for column in ("label", "name", "sha256", "path", "patient", "tags", "burned_in"):
        query = f"SELECT {column} FROM cases WHERE study = ? ORDER BY id"
        assert one.query(query, [BLIND]) != other.query(query, [BLIND]), column
        assert column == "path" or one.query(query, [OPEN]) == other.query(query, [OPEN]), column
