"""The administrator's list of accounts in a browser: an invitation whose password signs in, a reset, a removal."""

from __future__ import annotations

import os
from functools import partial

import pytest

from core.studio.db import opening
from core.studio.review import people
from tests.app.conftest import STUDY, Served, manage, open_tab, routed

pytestmark = pytest.mark.long

PASSWORD = "a long password"


@pytest.fixture(scope="module")
def signed(own_home):
    home = own_home("accounts")
    store = opening.open(str(home))
    people.add_reader(store, "Root", PASSWORD, "administrator")
    people.add_reader(store, "Ada", PASSWORD)
    server = Served(home, "--readers")
    yield server, store
    server.stop()
    store.close()


def enter(browser, url: str, name: str, password: str):
    page = browser.new_context(viewport={"width": 1366, "height": 768}).new_page()
    page.goto(url)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda address: not address.endswith("/sign-in"))
    return page


def test_a_reader_is_invited_reset_and_removed(signed, browser):
    server, store = signed
    name = f"Eve{len(people.list_readers(store))}"  # another where a first try has failed
    page = enter(browser, server.url, "Root", PASSWORD)
    open_tab(page, server.url, "Study", STUDY)
    manage(page, "Accounts")
    panel = page.locator(".m-accounts")
    assert panel.get_by_role("button", name="Remove Root").is_disabled()
    panel.get_by_label("Name", exact=True).fill(name)
    panel.get_by_label("Role", exact=True).select_option("adjudicator")
    panel.get_by_role("button", name="Invite").click()
    told = panel.get_by_label(f"Password of {name}")
    told.wait_for()
    first = told.input_value()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    panel.get_by_role("button", name="Copy").click()
    page.locator(".toast.good").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == first
    if folder := os.environ.get("PMSACL_PICTURES"):
        page.locator(".toast").wait_for(state="detached")
        page.screenshot(path=f"{folder}/accounts.png")
    panel.get_by_role("button", name="Done").click()
    assert first not in page.content() and panel.get_by_label(f"Password of {name}").count() == 0

    eve = enter(browser, server.url, name, first)
    eve.wait_for_function("window.Studio && window.Studio.started")
    panel.get_by_role("combobox", name=f"Role of {name}").select_option("reader")
    panel.get_by_role("button", name=f"Reset password {name}").click()
    page.get_by_role("button", name=f"Reset the password of {name}").click()
    panel.get_by_label(f"Password of {name}").wait_for()
    assert panel.get_by_label(f"Password of {name}").input_value() != first
    assert people.role_of(store, name) == "reader"
    eve.wait_for_url("**/sign-in")  # the session ended with the password, and the open page goes by itself
    eve.context.close()

    panel.get_by_role("button", name=f"Remove {name}").click()
    red = page.get_by_role("button", name=f"Remove “{name}”")
    assert "danger" in (red.get_attribute("class") or "")
    red.click()
    panel.get_by_role("combobox", name=f"Role of {name}").wait_for(state="detached")
    active = {row["name"] for row in people.list_readers(store) if row["active"]}
    assert name not in active and {"Ada", "Root"} <= active
    page.context.close()


def test_a_reader_changes_the_own_password(signed, browser):
    server, store = signed
    page = enter(browser, server.url, "Ada", PASSWORD)
    page.get_by_role("link", name="Password", exact=True).click()
    page.get_by_label("Current password").fill(PASSWORD)
    page.get_by_label("New password", exact=True).fill("a much longer password")
    page.get_by_label("New password again").fill("a much longer password")
    page.get_by_role("button", name="Change password").click()
    page.get_by_text("The password of Ada has been changed").wait_for()
    if folder := os.environ.get("PMSACL_PICTURES"):
        page.screenshot(path=f"{folder}/password.png")
    page.get_by_role("link", name="Back to the studio").click()
    page.wait_for_function("window.Studio && window.Studio.started")
    assert people.verify(store, "Ada", "a much longer password")
    page.context.close()


def listed(browser, url):
    """The list of accounts, drawn; the button that shows and hides it; its further questions, held."""
    page, held = enter(browser, url, "Root", PASSWORD), []
    open_tab(page, url, "Study", STUDY)
    opener = partial(manage, page, "Accounts")
    opener()
    page.locator(".m-accounts").get_by_role("button", name="Remove Root").wait_for()
    page.wait_for_load_state("networkidle")
    routed(page, f"**/api/accounts/{STUDY}", lambda route: held.append(route))
    return page, opener, held


def test_what_is_typed_stays_when_the_list_comes_late(signed, browser):
    page, opener, held = listed(browser, signed[0].url)
    panel = page.locator(".m-accounts")
    with page.expect_request(f"**/api/accounts/{STUDY}"):
        opener()  # closes the panel, and asks again all the same
    opener()
    panel.get_by_label("Name", exact=True).fill("Eve")
    panel.get_by_label("Role", exact=True).select_option("adjudicator")
    for route in held:
        with page.expect_response(f"**/api/accounts/{STUDY}"):
            route.continue_()
    page.evaluate("() => new Promise((done) => setTimeout(done))")  # what the answer draws is drawn
    assert panel.get_by_label("Name", exact=True).input_value() == "Eve"
    assert panel.get_by_label("Role", exact=True).input_value() == "adjudicator"
    page.context.close()


def test_one_user_reads_how_sign_in_is_turned_on(page, page_url, go):
    go(page, page_url, "Study", STUDY)
    manage(page, "Accounts")
    panel = page.locator(".m-accounts")
    panel.get_by_text("--role administrator").wait_for()
    assert panel.get_by_role("button").count() == 0 and panel.get_by_role("textbox").count() == 0


def test_a_click_is_taken_while_the_list_is_drawn_again(signed, browser):
    page, opener, held = listed(browser, signed[0].url)
    remove = page.locator(".m-accounts").get_by_role("button", name="Remove Ada")
    for _ in range(2):  # closes the panel and opens it; each asks anew
        with page.expect_request(f"**/api/accounts/{STUDY}"):
            opener()
    remove.hover()
    page.mouse.down()
    for route in held:
        with page.expect_response(f"**/api/accounts/{STUDY}"):
            route.continue_()
    page.evaluate("() => new Promise((done) => setTimeout(done))")  # what the answer draws is drawn
    page.mouse.up()
    page.get_by_role("button", name="Remove “Ada”").wait_for()
    page.context.close()
