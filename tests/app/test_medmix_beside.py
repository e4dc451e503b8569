"""The MedMix tab: what is kept beside stays and is named; images are shown in their own proportions."""

from __future__ import annotations

import pytest

from tests.app.conftest import STUDY
from tests.app.test_medmix import change, open_tab, set_number

PIXELS = """(at) => { const c = document.querySelectorAll('.medmix-room .grid canvas')[at]; const side = 256;
    const d = c.getContext('2d').getImageData(0, 0, 3 * side, c.height).data; let s = 0;
    for (let i = 0; i < d.length; i += 4) s = (s * 31 + d[i] + 7 * d[i + 1]) % 1e9; return String(s); }"""

CELLS = """(grids) => grids.map((grid) =>
    grid.getBoundingClientRect().width / (grid.querySelector('canvas').width / 256))"""


@pytest.mark.long
def test_what_is_kept_beside_stays_as_it_was_and_is_named(page, page_url, go):
    open_tab(page, page_url, go)
    seen = page.evaluate(PIXELS, 0)  # of the first three samples
    change(page, lambda: page.get_by_label("Compare with").select_option("now"))
    assert page.locator(".grid h3").all_inner_texts() == ["now", "copy"]
    assert [page.evaluate(PIXELS, i) for i in (0, 1)] == [seen, seen], "the very images that were on screen"
    asked = []
    page.on("request", lambda r: asked.append(r) if r.url.endswith("/api/medmix/grid") else None)
    change(page, lambda: page.get_by_label("Size of a lesion, highest").fill("0.6"))
    assert page.evaluate(PIXELS, 0) != seen and page.evaluate(PIXELS, 1) == seen
    assert len(asked) == 1, "what is kept is not drawn again"
    change(page, lambda: page.get_by_label("Augmentation").select_option(label="Rotation"))
    assert page.evaluate(PIXELS, 1) == seen, "nor is it drawn by another augmentation"
    change(page, lambda: page.get_by_label("Augmentation").select_option(label="MedMix"))
    change(page, lambda: set_number(page, "k", 6))
    cells = page.locator(".grid").evaluate_all(CELLS)
    assert cells[0] == pytest.approx(cells[1], rel=0.02), "seven classes beside four, at one scale"
    change(page, lambda: page.get_by_label("Compare with").select_option(label="paper"))
    assert page.locator(".grid h3").all_inner_texts() == ["now", "paper"]


def test_images_are_shown_in_their_own_proportions(page, page_url, go):
    open_tab(page, page_url, go)
    size = page.evaluate(f"fetch('/api/study/{STUDY}/overview').then((r) => r.json()).then((o) => o.sizes[0][0])")
    wide, high = (int(side) for side in size.split(" x "))
    box = page.locator(".grid canvas").bounding_box()
    shown = box["width"] / 6 / (box["height"] / 4)
    if page.locator(".status").filter(has_text="different aspect ratios").count():
        assert abs(shown - 1) < 0.02
    else:
        assert abs(shown - wide / high) < 0.03
        assert ("squeezes" in page.locator(".medmix-room .status").inner_text()) == (wide != high)
