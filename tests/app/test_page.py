"""The page's head: each of its modules has an address under which the browser may keep it."""

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
