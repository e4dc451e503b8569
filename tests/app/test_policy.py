"""The content security policy in the browser: the page works under it, and what is injected does not run."""

from __future__ import annotations

import re
import urllib.request

import pytest

TABS = ("Study", "MedMix", "Training", "Clusters", "Review", "Results", "Trials", "Report")
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
    for tab in TABS:
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
