"""The next cases are fetched before they are asked for."""

import numpy as np
import pytest

from tests.app.review.conftest import WIDGET, enter, packed, settle

pytestmark = pytest.mark.long


def test_the_next_case_is_painted_soon(page, page_url):
    enter(page, page_url)
    took = page.evaluate(
        f"""async () => {{ const out = [];
        for (let i = 0; i < 20; i++) {{
            const start = performance.now();
            document.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'ArrowRight', bubbles: true }}));
            await {WIDGET}.idle();
            out.push({WIDGET}.review.shownAt - start);
        }} return out }}"""
    )
    print("key to next image painted, ms:", [round(t) for t in took], "p95", round(np.percentile(took, 95)))
    assert np.median(took) < 1000  # the aim is 150 ms on a free machine; a busy one must not fail the suite


def test_the_next_cases_come_in_one_request_each_and_are_ready(page, page_url):
    enter(page, page_url)
    page.keyboard.press("ArrowRight")
    settle(page)
    ready = """async () => { const { heats } = await import('/page/widgets/review/js/layers.js');
        const made = await Promise.all(heats.held.values());
        return made.length >= 4 && made.every((h) => h.made?.contour && h.made?.counted) }"""
    page.wait_for_function(ready)
    asked = []
    page.on("request", lambda r: asked.append(r.url.removeprefix(page_url).split("?")[0]))
    with page.expect_response(lambda r: "/pack" in r.url):
        page.keyboard.press("ArrowRight")
    settle(page)
    page.wait_for_function(ready)
    asked = [a for a in asked if not a.endswith(("/thumb.png", "api/status", "favicon.svg"))]
    assert asked[0] == "api/review/step" and len(asked) == 2, asked
    assert asked[1].endswith("/pack")
    body = page.request.get(f"{page_url}{asked[1]}?run=" + page.evaluate(f"{WIDGET}.review.run")).body()
    assert {"image", "heat", "roi"} <= {p["name"] for p in packed(body)}
