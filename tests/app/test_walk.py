"""A walk by a seed through the whole page: nothing on screen is of another study, and all is what the server says.

Two readers' windows on one home, three studies, slow answers that overtake each other, reloads, back and forward, cases
and runs that come in meanwhile. At each moment no visible picture, row, address or word may be of a study that is not
open; after each step what the open tab says is compared with the server's answers.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page

from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.runs import records as runs
from tests.app.conftest import Served
from tests.conftest import wait
from tests.studio.review.conftest import add_readings, draw_folder

STUDIES = {"harbour": (12, 9, 7), "meadow": (8, 5, 6), "quarry": (6, 4, 0)}  # quarry: not scored at first
TABS = ("study", "medmix", "training", "clusters", "review", "results", "trials", "report")
SECONDS = 15  # in which the page says what the server says; it looks again at each beat, every ten

# Every answer of the studio may be late, by a seed, so that a later one overtakes it; and a look, twenty times a
# second, at whether something visible is of a study that is not open.
SPY = """(seed) => {
  let state = seed;
  const draw = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const walk = (window.walk = { open: 0, ended: 0, strange: new Set(), cases: {}, runs: {}, studies: [] });
  const real = window.fetch.bind(window);
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  window.fetch = async (input, init) => {
    const url = String(input.url || input);
    if (!url.includes('/api/') || url.includes('gradio_api')) return real(input, init);
    const late = draw() < 0.3 ? 250 * draw() : 0;
    const early = draw() < 0.2 ? 120 * draw() : 0;
    walk.open += 1;
    try {
      await pause(early);
      const answer = await real(input, init);
      await pause(late);
      return answer;
    } finally {
      setTimeout(() => { walk.open -= 1; walk.ended = performance.now(); });
    }
  };
  walk.look = () => {
    const study = window.Studio?.study;
    if (!study || !window.Studio.started) return;
    const of = (what, owner) => owner && owner !== study && walk.strange.add(`${what} of ${owner} in ${study}`);
    const room = [...document.querySelectorAll('#rooms .widget')].find((e) => e.checkVisibility());
    if (!room) return;
    for (const e of room.querySelectorAll('img, image, [data-id], [data-run]')) {
      if (!e.checkVisibility()) continue;
      const address = e.getAttribute('src') || e.getAttribute('href') || '';
      const number = address.match(/\\/case\\/(\\d+)/)?.[1] || e.dataset?.id;
      if (number) of(`case ${number}`, walk.cases[number]);
      if (e.dataset?.run) of(`run ${e.dataset.run}`, walk.runs[e.dataset.run]);
    }
    const review = room.review;
    if (review?.detail) of('picture', review.detail.study);
    for (const name of walk.studies) if (name !== study && room.innerText.includes(name)) of('words', name);
  };
  const look = () => { walk.look(); setTimeout(look, 50); };
  look();
}"""

# What is on screen, as a person reads it.
SHOWN = """() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)].filter((e) => e.checkVisibility());
  const text = (selector) => all(selector).map((e) => e.textContent.trim());
  const numbers = (selector) => all(selector).map((e) => Number(e.dataset.id));
  const asked = new URL(location.href).searchParams;
  const room = [...document.querySelectorAll('#rooms .widget')].find((e) => e.checkVisibility());
  const review = room?.review;
  const said = {
    study: window.Studio.study, tab: window.Studio.tab, address: Object.fromEntries(asked),
    picker: document.querySelector('#study-picker input').value,
    chosen: document.querySelector('#rooms button[role=tab][aria-selected=true]').textContent.trim(),
    room: room?.className.match(/widget-(\\w+)/)?.[1],
  };
  if (review) said.review = {
    params: review.list.params(), gridded: review.grid.on, run: review.run, id: review.detail?.id ?? null,
    title: review.detail ? document.querySelector('.rv-title').textContent : null,
    state: text('.rv-state')[0], score: text('.rv-scale-top b')[0], flag: text('.rv-flag')[0],
    rows: all('.rv-rows .rv-row[data-id]').map((e) => [Number(e.dataset.id),
      e.querySelector('.rv-pct').textContent, e.querySelector('.rv-mark').title.split(',')[0]]),
    current: numbers('.rv-rows [aria-current]'), tally: text('.rv-tally')[0],
    detectors: all('.rv-choice[aria-label=Detector] button, [aria-label=Detector] button').map((e) => [
      e.textContent.trim(), e.getAttribute('aria-pressed') === 'true']),
  };
  const cells = (row) => [...row.cells].map((c) => c.textContent);
  if (said.room === 'study') {
    said.counts = all('.counts tr').slice(1).map(cells);
    said.heading = [text('.study-main .title')[0], text('.study-main .facts')[0]];
  }
  if (said.room === 'training') {
    said.runs = all('.runs tr[data-run]').map((e) => [e.dataset.run, e.cells[1].textContent.replace('└ ', ''),
      e.cells[3].textContent]);
    said.marked = all('.runs tr.chosen').map((e) => e.dataset.run);
    said.heading = text('.run-name')[0];
  }
  if (said.room === 'results') {
    said.run = document.querySelector('.rs-page tr:has([aria-pressed=true])')?.dataset.run ?? null;
    said.figures = all('.rs-two table').map((t) => [...t.rows].map((r) => cells(r).slice(1).join('')));
    said.force = text('.rs-chosen')[0];
    said.options = all('.rs-page tr[data-run]').map((row) => row.dataset.run);
  }
  if (said.room === 'report') said.missing = text('.make')[0];
  if (said.room === 'clusters') said.nothing = text('.nothing h2')[0] ?? null;
  return said;
}"""
IDLE = """() => {
  let over = false;
  const asked = new Promise((done) => {
    const look = () => over || (document.querySelector('dialog.ask[open]') ? done('asked') : setTimeout(look, 30));
    look();
  });
  const idle = Promise.resolve(document.querySelector('.widget-review')?.idle?.()).then(() => 'idle');
  return Promise.race([idle, asked]).finally(() => { over = true; });
}"""
QUIET = """() => window.walk && window.walk.open === 0 && performance.now() - window.walk.ended > 60
  && window.Studio?.started && [...document.querySelectorAll('#rooms .widget')].some(
    (e) => e.checkVisibility() && 'ready' in e.dataset)"""


class Home:
    """What the server and its database say, and what happens there meanwhile."""

    def __init__(self, server: Served, base: Path):
        self.server, self.base = server, base
        self.client = httpx.Client(base_url=server.url.rstrip("/"), timeout=60)
        self.path = server.home / "studio.sqlite"
        self.came = 0

    def get(self, path: str, **params) -> dict:
        answer = self.client.get(path, params={k: v for k, v in params.items() if v not in (None, "")})
        assert answer.status_code == 200, (path, params, answer.text)
        return answer.json()

    def owners(self) -> tuple[dict[str, str], dict[str, str]]:
        """The study of each case and of each run."""
        with sqlite3.connect(self.path) as db:
            return tuple({str(i): s for i, s in db.execute(f"SELECT id, study FROM {t}")} for t in ("cases", "runs"))  # type: ignore[return-value]

    def ended(self, study: str, method: str, seed: int) -> None:
        """A run goes, and ends with scores in the middle of the walk."""
        store = opening.open(str(self.server.home))
        add_readings(store, study, method, seed=seed)
        store.close()

    def renamed(self, study: str, chance: random.Random) -> None:
        store = opening.open(str(self.server.home))
        rows = store.query("SELECT id FROM runs WHERE study = ? AND binned IS NULL", [study])
        if rows:
            self.came += 1
            runs.update_run(store, chance.choice(rows)["id"], name=f"named {self.came}")
        store.close()

    def arrived(self, study: str) -> None:
        """Cases are added by a job of the server."""
        self.came += 1
        folder = named(self.base / f"more{self.came}", study, (0, 1, 1), f"m{self.came}")
        before = self.get("/api/review/counts", study=study)["total"]
        answer = self.client.post(f"/api/study/{study}/add", json={"path": str(folder)})
        assert answer.status_code == 200, answer.text
        wait(lambda: self.get("/api/review/counts", study=study)["total"] > before)


def named(folder: Path, study: str, sizes: tuple[int, int, int], mark: str = "") -> Path:
    """A drawn study whose files, and so its cases, bear its name."""
    draw_folder(folder, *sizes)
    for path in [p for p in folder.rglob("*.png")]:
        path.rename(path.with_name(f"{study}-{mark}{path.name}"))
    return folder


@pytest.fixture(scope="module")
def walked(tmp_path_factory) -> Iterator[Home]:
    base = tmp_path_factory.mktemp("walk")
    store = opening.open(str(base / "home"))
    for place, (study, sizes) in enumerate(STUDIES.items()):
        studies.import_study(store, study, named(base / study, study, sizes), copy=True)
        if study != "quarry":
            for seed, method in enumerate(("padim", "lesion-head")):
                add_readings(store, study, method, seed=10 * place + seed)
    store.close()
    server = Served(base / "home")
    home = Home(server, base)
    yield home
    home.client.close()
    server.stop()


class Window:
    """One browser window on the page."""

    def __init__(self, home: Home, page: Page, url: str, seed: int):
        self.home, self.page, self.url = home, page, url
        self.wrong: list[str] = []
        self.chance = random.Random(seed)
        page.add_init_script(f"({SPY})({seed})")
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: self.wrong.append(f"script: {error}"))
        page.on("console", self.heard)
        self.open("harbour", "study")

    def heard(self, message) -> None:
        """Keeps an error of the console; that a case of another study is refused is what an address may ask for."""
        place = message.location.get("url", "")
        asked = re.search(r"/api/review/case/(\d+)\?.*study=(\w+)", place)
        if message.type == "error" and not (asked and self.home.owners()[0].get(asked[1]) != asked[2]):
            self.wrong.append(f"console: {message.text} {place}")

    def open(self, study: str, tab: str, **more: object) -> None:
        asked = "".join(f"&{k}={v}" for k, v in more.items() if v)
        self.page.goto(f"{self.url}?study={study}&tab={tab}{asked}")
        self.begun()

    def begun(self) -> None:
        self.page.wait_for_function("window.Studio && window.Studio.started")
        self.told()

    def told(self) -> None:
        """Tells the spy which study each case and run is of."""
        cases, own = self.home.owners()
        self.page.evaluate(
            "(t) => Object.assign(window.walk, t)", {"cases": cases, "runs": own, "studies": list(STUDIES)}
        )

    def taken_up(self) -> None:
        """Another window had the focus, and this one has it again."""
        self.told()
        self.page.evaluate("for (const name of ['blur', 'focus']) dispatchEvent(new Event(name))")

    def quiet(self) -> None:
        """Waits until what was asked for is there; a question (two decisions within a second) is answered by chance."""
        self.page.wait_for_function(QUIET, polling=30)
        while self.page.evaluate(IDLE) == "asked":
            buttons = self.page.locator("dialog.ask[open] button")
            buttons.nth(self.chance.randrange(buttons.count())).click()
        self.page.wait_for_function(QUIET, polling=30)

    def strange(self) -> list[str]:
        return self.page.evaluate("() => { window.walk.look(); return [...window.walk.strange] }")


class Walk:
    """The steps, by a seed."""

    def __init__(self, home: Home, windows: list[Window], seed: int):
        self.home, self.windows, self.chance = home, windows, random.Random(seed)
        self.window = windows[0]
        self.trail: list[str] = []
        self.steps: list[tuple[int, Callable[[], str]]] = [
            (10, self.study), (16, self.tab), (2, self.reload), (3, self.address), (2, self.history),
            (34, self.review), (5, self.results), (5, self.training), (6, self.other_window), (3, self.meanwhile),
        ]  # fmt: skip

    @property
    def page(self) -> Page:
        return self.window.page

    def now(self, what: str):
        return self.page.evaluate(f"() => {what}")

    def step(self) -> str:
        """Does one step. Returns what it was."""
        (chosen,) = self.chance.choices([s for _, s in self.steps], [w for w, _ in self.steps])
        did = chosen()
        self.trail.append(f"{self.windows.index(self.window)}: {did}")
        return did

    def study(self) -> str:
        others = [s for s in STUDIES if s != self.now("window.Studio.study")]
        first, second = self.chance.choice(others), self.chance.choice([None, *STUDIES])
        self.page.locator("#study-picker input").click()
        # MedMix and Trials have menus of studies as well.
        self.page.locator(f"li[role=option][aria-label='{first}']").click(force=True)
        if second:  # while the first one is on its way, as an import or the bin does it
            self.page.evaluate("(name) => window.Studio.chooseStudy(name)", second)
        self.page.wait_for_function("(name) => window.Studio.study === name", arg=second or first)
        return f"study {first}, then {second}"

    def tab(self) -> str:
        name = self.chance.choice([*TABS, "review", "review", "results", "training"])
        self.page.locator(f"#tab-{name}-button").click()
        return f"tab {name}"

    def reload(self) -> str:
        self.page.reload()
        self.window.begun()
        return "reload"

    def address(self) -> str:
        """An address as somebody sent it: perhaps with a case or a run of another study."""
        cases, own = self.home.owners()
        study, tab = self.chance.choice(list(STUDIES)), self.chance.choice(("review", "review", "training", "results"))
        more = {"case": self.chance.choice([None, *cases]), "run": self.chance.choice([None, *own])}
        self.window.open(study, tab, **more)
        return f"address {study} {tab} {more}"

    def history(self) -> str:
        back = self.chance.random() < 0.6
        moved = self.page.go_back() if back else self.page.go_forward()
        if moved is None or "127.0.0.1" not in self.page.url:
            self.window.open(self.chance.choice(list(STUDIES)), "review")
        self.window.begun()
        return "back" if back else "forward"

    def review(self) -> str:
        if self.now("window.Studio.tab") != "review" or not self.page.locator(".widget-review[data-ready]").count():
            self.page.locator("#tab-review-button").click()
            return "tab review"
        self.page.evaluate("document.activeElement?.blur()")
        kind = self.chance.choice(("keys", "keys", "keys", "row", "filter", "order", "detector", "grid"))
        if kind == "keys":
            keys = self.chance.choices(
                ["ArrowRight", "ArrowLeft", "n", "a", "u", "z", "y", "d", "l"],
                [5, 3, 4, 4, 2, 3, 2, 2, 1],
                k=self.chance.choice((1, 1, 2, 4)),
            )
            for key in keys:
                self.page.keyboard.press(key)
            return f"keys {keys}"
        if kind == "row":
            rows = self.page.locator(".rv-rows .rv-row[data-id]:visible")
            count = rows.count()
            if count:
                rows.nth(self.chance.randrange(count)).evaluate("e => e.click()")
            return f"row of {count}"
        if kind in ("filter", "order"):
            menus = self.page.locator(".rv-list select:visible")
            if not menus.count():
                return "no menu"
            menu = menus.nth(self.chance.randrange(menus.count()))
            values = menu.evaluate("e => [...e.options].filter((o) => !o.disabled).map((o) => o.value)")
            value = self.chance.choice([values[0], self.chance.choice(values)])
            menu.select_option(value)
            return f"{menu.get_attribute('aria-label')} = {value}"
        if kind == "detector":
            buttons = self.page.locator("[aria-label=Detector] button:visible")
            if buttons.count():
                buttons.nth(self.chance.randrange(buttons.count())).evaluate("e => e.click()")
            return "detector"
        self.page.keyboard.press("q")
        return "grid"

    def results(self) -> str:
        self.page.locator("#tab-results-button").click()
        names = self.page.locator(".rs-page tr[data-run] button[aria-pressed]:visible")
        if not names.count():
            return "tab results"
        if self.chance.random() < 0.5:
            names.nth(row := self.chance.randrange(names.count())).click()
            return f"results of row {row}"
        dot = self.page.locator(".rs-page [role=slider]:visible")
        if dot.count():
            dot.focus()
            self.page.keyboard.press(key := self.chance.choice(("ArrowRight", "ArrowLeft")))
            return f"operating point {key}"
        return "tab results"

    def training(self) -> str:
        self.page.locator("#tab-training-button").click()
        rows = self.page.locator(".runs tr[data-run]:visible")
        count = rows.count()
        if count:
            rows.nth(self.chance.randrange(count)).evaluate("e => e.click()")
        return f"run of {count}"

    def other_window(self) -> str:
        """The other window is taken up again: the browser says so, and it shows what was done meanwhile."""
        self.window = next(w for w in self.windows if w is not self.window)
        self.window.taken_up()
        return "other window"

    def meanwhile(self) -> str:
        """Something happens at the server; whoever comes back to the window sees it."""
        study = self.chance.choice(list(STUDIES))
        kind = self.chance.choice(("run", "name", "cases"))
        if kind == "run":
            self.home.ended(study, self.chance.choice(("padim", "nearest", "lesion-head")), self.chance.randrange(99))
        elif kind == "name":
            self.home.renamed(study, self.chance)
        else:
            self.home.arrived(study)
        self.window.taken_up()
        return f"meanwhile a {kind} in {study}"


def differences(home: Home, shown: dict) -> list[str]:
    """What the page says otherwise than the server."""
    wrong: list[str] = []

    def same(what: str, on_page, at_server) -> None:
        if on_page != at_server:
            wrong.append(f"{what}: {on_page!r} on the page, {at_server!r} at the server")

    study, room = shown["study"], shown["room"]
    same("picker", shown["picker"], study)
    same("study of the address", shown["address"].get("study"), study)
    same("tab", shown["chosen"].lower(), room)
    same("tab of the address", shown["address"].get("tab"), room)
    _ROOMS.get(room, lambda *_: None)(home, shown, study, same)
    return wrong


BY_DECISIONS = ("reviewed", "decision", "disagreement")


def _review(home: Home, shown: dict, study: str, same) -> None:
    said = shown["review"]
    params = said["params"]
    same("study of the list", params["study"], study)
    if said["gridded"]:  # its tiles are looked at by the spy
        return
    setup = home.get("/api/review/open", study=study)
    runs_there = setup["runs"]
    same("detectors", [t for t, _ in said["detectors"]], [r["title"] for r in runs_there if r["first"]])
    pressed = [r["title"] for r in runs_there if r["first"] and r["id"] == said["run"]]
    same("detector in use", [t for t, on in said["detectors"] if on], pressed)
    same("run of the address", shown["address"].get("run", said["run"]), said["run"])
    listed = home.get("/api/review/list", **params)["rows"]
    known = [r["percentile"] for r in listed if r["percentile"] is not None]
    by_score = len(known) > 3 and sum(f"{p:.1f}" == "100.0" for p in known) > len(known) / 2

    def figure(row: dict) -> str:
        value = row["score"] if by_score else row["percentile"]
        return "–" if value is None else f"{value:.{2 if by_score else 1}f}"

    ids = [row[0] for row in said["rows"]]
    filtered = any(params.get(k) for k in ("decision", "flagged", "has_mask", "assigned", "tag", "text", "label"))
    if not filtered:  # a case that was decided stays in a filtered list until that is asked for again
        there = [r["id"] for r in listed]
        stays = params.get("sort") in BY_DECISIONS  # and where it is in a list whose order it changes
        same("cases of the list", sorted(ids) if stays else ids, sorted(there) if stays else there)
        rows = {r["id"]: [r["id"], figure(r), r["decision"] or "unread"] for r in listed}
        same("rows of the list", [r[1:] for r in said["rows"]], [rows[i][1:] for i in ids if i in rows])
    counts = home.get("/api/review/counts", **params)
    if not filtered:
        tally = "{read} of {total} readN{normal}A{abnormal}U{unsure}".format(**counts)
        same("tally", said["tally"], tally)
    if said["id"] is None:
        same("case of the address", shown["address"].get("case"), None)
        return
    same("case of the address", shown["address"].get("case"), str(said["id"]))
    same("row in the light", said["current"], [said["id"]] if said["id"] in ids else [])
    case = home.get(f"/api/review/case/{said['id']}", **params)["case"]
    same("study of the case", case["study"], study)
    same("name of the case", said["title"], case["name"])
    mine = [r for r in case["mine"] if r["active"]]
    same("decision", said["state"].split(" · ")[0], f"your decision: {mine[-1]['decision']}" if mine else "unread")
    reading = case["readings"].get(said["run"]) if said["run"] else None
    same("score", said["score"], f"{reading['percentile']:.1f} %" if reading else "–")
    same("flag", said["flag"], ("flagged" if reading["flagged"] else "not flagged") if reading else "")


def _study(home: Home, shown: dict, study: str, same) -> None:
    overview = home.get(f"/api/study/{study}/overview")
    name, facts = shown["heading"]
    same("heading", name, overview["study"]["name"])
    same("facts", (facts or "").split(" · ")[0], f"{overview['study']['cases']} cases")
    table, masks = overview["table"], overview["masks"]
    labels = [n for n in ("normal", "abnormal", "unknown") if any(table[s][n] for s in table)]
    rows = [[t, *[str(table[s][n]) for n in labels], str(masks[s])] for s, t in
            (("train", "train"), ("holdout", "held out"), ("test", "test"))]  # fmt: skip
    same("counts", shown["counts"][:3], rows)


def _training(home: Home, shown: dict, study: str, same) -> None:
    there = {r["id"]: r for r in home.get("/api/training/runs", study=study, archived="false")["runs"]}
    same("runs", sorted(r[:2] for r in shown["runs"]), sorted([i, r["name"]] for i, r in there.items()))
    same("run in the light", len(shown["marked"]), 1 if there else 0)
    for run in shown["marked"]:
        same("heading of the run", shown["heading"], there[run]["name"] if run in there else None)
        same("run of the address", shown["address"].get("run"), run)


def _results(home: Home, shown: dict, study: str, same) -> None:
    answer = home.get(f"/api/results/{study}", run=shown["run"])
    same("run", shown["run"], answer["run"])
    if answer["run"] is None:
        return
    same("runs", shown["options"], [r["run"] or "baseline" for r in answer["compared"]])
    point = answer["chosen"]
    above = "" if point["threshold"] is None else f", above a score of {point['threshold']:.3f}"
    chosen = point["reader"] and f"; chosen by {point['reader']}"
    in_effect = re.sub(
        r"(; chosen by .+) on .+(\. Higher)", r"\1\2", shown["force"]
    )  # the day is said as the browser says days
    same("point in effect", in_effect, f"In effect: {point['words']}{above}{chosen}. Higher scores are flagged.")

    def figure(s: dict) -> str:
        if s["value"] is None:
            return "–"
        interval = "" if s["low"] is None else f"{100 * s['low']:.1f} to {100 * s['high']:.1f}, {s['hits']} of {s['n']}"
        return f"{100 * s['value']:.1f} %{interval}"

    against_labels = answer["labels"] | {"outlined": answer["outlined"]}
    names = ["sensitivity", "specificity", "ppv", "npv", "outlined"]
    for table, point in zip(shown["figures"], (against_labels, answer["readers"]), strict=False):
        for name, cell in zip([name for name in names if name in point], table, strict=True):
            hits = cell.rsplit(", ", 1)[-1] if ", " in cell else cell
            expected = figure(point[name])
            same(name, hits, expected.rsplit(", ", 1)[-1] if ", " in expected else expected)


def _report(home: Home, shown: dict, study: str, same) -> None:
    same("cells", bool(shown["missing"]), True)


def _clusters(home: Home, shown: dict, study: str, same) -> None:
    there = [m for m in home.get("/api/clusters/maps", study=study)["maps"] if m["ready"]]
    same("no map", bool(shown["nothing"]), not there)


_ROOMS: dict[str, Callable] = {
    "review": _review, "study": _study, "training": _training, "results": _results, "report": _report,
    "clusters": _clusters,
}  # fmt: skip


def agrees(walk: Walk) -> list[str]:
    """Waits until the page says what the server says. Returns what it still says otherwise."""
    wrong: list[str] = []

    def equal() -> bool:
        nonlocal wrong
        walk.window.quiet()
        wrong = differences(walk.home, walk.page.evaluate(SHOWN))
        return not wrong

    try:
        wait(equal, SECONDS)
    except AssertionError:
        return wrong
    return []


def stroll(home: Home, browser, seed: int, steps: int) -> None:
    """Walks; raises AssertionError with the seed and the last steps where the page and the server differ."""
    contexts = [browser.new_context(viewport={"width": 1366, "height": 768}) for _ in range(2)]
    windows = [Window(home, c.new_page(), home.server.url, seed + i) for i, c in enumerate(contexts)]
    walk = Walk(home, windows, seed)
    try:
        for number in range(steps):
            walk.step()
            found = agrees(walk) + walk.window.strange() + [w for each in windows for w in each.wrong]
            assert not found, f"seed {seed}, step {number}: {found}\n" + "\n".join(walk.trail[-14:])
    finally:
        for context in contexts:
            context.close()


@pytest.mark.slow
@pytest.mark.parametrize("steps", [30, pytest.param(200, marks=pytest.mark.long)])
def test_steps_show_nothing_that_is_not_so(walked, browser, steps):
    stroll(walked, browser, seed=2, steps=steps)


@pytest.mark.longest
@pytest.mark.timeout(1800)  # seconds; two minutes on quiet cores
@pytest.mark.parametrize("seed", range(10, 20))
def test_two_thousand_steps_show_nothing_that_is_not_so(walked, browser, seed):
    stroll(walked, browser, seed, steps=200)
