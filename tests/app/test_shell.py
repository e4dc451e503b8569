"""The shell: its theme at once, nothing for strangers, one study for all tabs."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from app.theme import DARK, LIGHT
from tests.app.conftest import STUDY, Served

pytestmark = pytest.mark.slow

PRIVATE = ["config", "gradio_api/info", "api/training/forms", "api/study/small/overview", "page/widgets/study/study.js"]


def status(url: str, **headers) -> int:
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize(("scheme", "palette"), [("dark", DARK), ("light", LIGHT)])
def test_page_has_the_systems_theme_before_anything_is_painted(page, page_url, scheme, palette):
    page.emulate_media(color_scheme=scheme)
    page.add_init_script(
        """window.seen = new Set();
        const look = () => {
          if (document.body) window.seen.add(getComputedStyle(document.body).backgroundColor);
          requestAnimationFrame(look);
        };
        requestAnimationFrame(look);"""
    )
    page.goto(page_url)
    page.wait_for_function("window.Studio?.started && window.seen.size")
    red, green, blue = (int(palette["ground"][i : i + 2], 16) for i in (1, 3, 5))
    assert page.evaluate("[...window.seen]") == [f"rgb({red}, {green}, {blue})"]


@pytest.mark.long
def test_address_opens_study_and_tab_and_the_list_of_studies_closes_on_tab(page, page_url, go):
    modules = []
    page.on("request", lambda r: modules.append(r.url) if "/page/" in r.url and ".js" in r.url else None)
    go(page, page_url, "MedMix")
    assert page.evaluate("window.Studio.study") == STUDY
    assert "Not a medical device" in page.locator(".intended-use:visible").inner_text()
    assert "tab=medmix" in page.url
    page.locator("#study-picker input").click()
    page.get_by_role("listbox").wait_for()
    page.keyboard.press("Tab")
    page.get_by_role("listbox").wait_for(state="hidden")
    page.reload()
    page.wait_for_selector(".widget-medmix[data-ready]")
    assert page.get_by_role("tab", name="MedMix", exact=True).get_attribute("aria-selected") == "true"
    assert len(modules) > 10 and all(".js?v=" in url for url in modules), "none is asked for again at each load"


@pytest.mark.long
def test_a_page_whose_first_answer_is_lost_asks_once_more(page, page_url):
    lost = []

    def lose(route):
        if lost:
            return route.continue_()
        lost.append(route.request.url)
        return None  # and no answer ever comes

    page.route(lambda url: "/run/predict" in url or "/queue/join" in url, lose)
    page.goto(f"{page_url}?study={STUDY}&tab=medmix")
    page.wait_for_function("window.Studio?.started", timeout=30_000)
    assert lost and page.evaluate("window.Studio.study") == STUDY
    page.wait_for_selector(".widget-medmix[data-ready]", state="visible")


def test_other_hosts_and_other_pages_are_refused(page_url):
    assert status(page_url, Host="studio.example") == 403
    request = urllib.request.Request(
        page_url + "api/study/drop", method="POST", headers={"Origin": "http://evil.example"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=20)
    assert refused.value.code == 403


def test_sources_beside_the_page_are_not_served(page_url):
    assert status(page_url + "page/widgets/__init__.py") == 404
    assert status(page_url + "page/static/../server.py") == 404


@pytest.fixture(scope="module")
def shared(own_home):
    """A server with sign-in, on a copy of the small home with one reader."""
    from core.studio.db import opening
    from core.studio.review import people

    home = own_home("readers")
    opened = opening.open(str(home))
    people.add_reader(opened, "Ada", "a long password")
    opened.close()
    server = Served(home, "--readers")
    yield server
    server.stop()


def test_strangers_see_nothing(shared):
    assert [status(shared.url + path) for path in PRIVATE] == [401] * len(PRIVATE)
    page = urllib.request.urlopen(urllib.request.Request(shared.url, headers={"Accept": "text/html"}), timeout=20)
    assert page.url.endswith("/sign-in")
    assert "small" not in page.read().decode()


@pytest.mark.long
def test_sign_in_and_out(shared, browser):
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    page = context.new_page()
    assert "unsafe" not in page.goto(shared.url).headers["content-security-policy"]
    assert page.locator("h1").evaluate("e => getComputedStyle(e).display") == "flex", "its own style is let in"
    page.get_by_label("Name").fill("Ada")
    page.get_by_label("Password").fill("a wrong password")
    page.get_by_role("button", name="Sign in").click()
    assert "name or the password is wrong" in page.get_by_role("alert").inner_text()
    page.get_by_label("Name").fill("Ada")
    page.get_by_label("Password").fill("a long password")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda address: not address.endswith("/sign-in"))
    page.wait_for_function("window.Studio && window.Studio.started", timeout=30_000)
    cookie = context.cookies()[0]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    assert context.request.get(shared.url + "config", max_redirects=0).status == 401
    context.close()
