"""The page's head, its content security policy in a browser, and the pictures of it in the documentation."""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import threading
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

from app.context import APP
from app.page import TABS, head
from tests.app.conftest import STUDY, Served
from tests.tools import pictures


def test_a_module_that_another_imports_is_asked_for_by_its_version():
    found = json.loads(re.search(r'<script type="importmap">(.*?)</script>', head())[1])["imports"]
    modules = {m.relative_to(APP).as_posix() for part in ("static", "widgets") for m in (APP / part).rglob("*.js")}
    addresses = {address: versioned for address, versioned in found.items() if address.startswith("./")}
    assert set(addresses) == {f"./page/{m}" for m in modules} and "static/dom.js" in modules
    named = set(found) - set(addresses)  # vendored libraries, imported by name
    assert "preact" in named and {found[name] for name in named} <= {addresses[a] for a in addresses if "/vendor/" in a}
    for address, versioned in addresses.items():
        digest = hashlib.sha256((APP / address.removeprefix("./page/")).read_bytes()).hexdigest()
        assert versioned == f"{address}?v={digest[:10]}"


def test_the_map_stands_before_every_module():
    """A browser ignores one that comes after the first module."""
    assert head().index('type="importmap"') < head().index('type="module"')


@pytest.fixture
def below(cases, own_home):
    """below(path, *arguments) -> address of a studio that a proxy shows below a path."""
    stopping = []

    def start(path: str, *arguments: str) -> str:
        server = Served(own_home("below"), "--proxy", *arguments)
        stopping.append(server.stop)

        class Handler(cases("prefix_proxy").Handler):
            target, prefix = urlsplit(server.url).port, path

        proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        stopping.insert(0, proxy.shutdown)
        return f"http://127.0.0.1:{proxy.server_port}{path}/"

    yield start
    for stop in stopping:
        stop()


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("path", ["/studio", "/a/page/x-1"])
def test_below_a_path_every_tab_works_and_nothing_is_asked_for_outside_of_it(below, browser, path):
    address = below(path)
    page = browser.new_page()
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("response", lambda answer: wrong.append((answer.status, answer.url)) if answer.status >= 400 else None)
    page.goto(f"{address}?study={STUDY}&tab=study")
    for tab in TABS:
        page.evaluate("tab => Studio.openTab(tab)", tab)
        page.locator(f".widget-{tab}[data-ready=yes]").wait_for(state="visible")
    web = [url for url in asked if url.startswith("http")]
    assert [url for url in web if not urlsplit(url).path.startswith(f"{path}/")] == [] and len(web) > 100
    assert wrong == []
    page.close()


@pytest.mark.long
def test_below_a_path_readers_are_sent_to_its_own_sign_in(below):
    address = below("/studio", "--readers")

    class Still(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_):
            return None

    opener = urllib.request.build_opener(Still, urllib.request.ProxyHandler({}))
    with pytest.raises(urllib.error.HTTPError) as answer:
        opener.open(urllib.request.Request(address, headers={"Accept": "text/html"}))
    assert answer.value.code == 303 and answer.value.headers["Location"] == "/studio/sign-in"
    shown = opener.open(f"{address}sign-in").read().decode()
    assert 'href="/' not in shown and 'src="/' not in shown


WATCH = """window.refused = [];
document.addEventListener('securitypolicyviolation', (e) =>
  window.refused.push(`${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`));"""


def policy_of(url: str) -> dict[str, str]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        parts = answer.headers["Content-Security-Policy"].split("; ")
    return {name: sources for name, _, sources in (part.partition(" ") for part in parts)}


@pytest.mark.slow
def test_no_policy_allows_inline_script(page_url):
    for path in ("", "tour", "api/status", "favicon.svg", "page/static/studio.js", "config"):
        found = policy_of(page_url + path)
        assert "unsafe-inline" not in found.get("script-src", found["default-src"]), path
        assert found["object-src"] == "'none'" or found["default-src"] == "'none'"
    scripts = [policy_of(page_url)["script-src"] for _ in range(2)]
    assert all(re.search("'nonce-[^']{20,}'", s) for s in scripts) and scripts[0] != scripts[1]
    assert "unsafe" not in str(policy_of(page_url + "tour"))


@pytest.mark.long
def test_every_tab_keeps_to_the_policy_and_what_is_injected_does_not_run(page, page_url, go):
    page.add_init_script(WATCH)
    for tab in TABS.values():
        go(page, page_url, tab)
        assert page.evaluate("window.refused") == [], tab
    image = '<img src="data:image/png,none" onerror="window.ran = 1">'
    page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", image)
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran=1'}))"
    )
    page.wait_for_function("window.refused.length >= 2")
    assert page.evaluate("window.ran") is None


def test_the_tours_page_keeps_to_its_own(page, page_url):
    page.add_init_script(WATCH)
    page.goto(page_url + "tour")
    page.wait_for_selector(".tour-next")
    page.frame_locator("iframe").locator("#top").wait_for()
    assert page.evaluate("window.refused") == []


NOTE = json.loads(pictures.NOTE.read_text(encoding="utf-8"))
ANEW = "the page has moved on: make its pictures anew (python -m tests.tools.pictures)"


def test_pictures_are_those_that_the_script_made():
    found = {name: hashlib.sha256((pictures.ASSETS / name).read_bytes()).hexdigest() for name in NOTE["files"]}
    assert found == NOTE["files"]
    shown = "".join((pictures.ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "app/README.md"))
    named = set(re.findall(r"assets/([\w-]+\.(?:png|jpg))", shown))
    assert named - {"first_minute.jpg", "clusters.png"} == set(NOTE["files"]), "others make these"


@pytest.mark.parametrize("tab", TABS)
def test_what_can_be_read_on_a_picture_is_still_on_the_page(tab):
    assert NOTE["tabs"] == list(TABS.values()), ANEW
    text, before = pictures.sources()[tab], NOTE["controls"][tab]
    assert not [word for word in NOTE["words"][tab] if word not in text], ANEW
    assert sum(map(len, NOTE["words"].values())) > 60 and abs(pictures.controls()[tab] - before) <= 0.1 * before, ANEW
