"""The figures below a map, over its epochs."""

from __future__ import annotations

import numpy as np

from core.studio.clusters import library


def test_numbers_show_their_course_and_where_they_disagree_with_the_map(maps, mapped):
    page, about = maps.page, library.open_map(mapped[1], mapped[3][1]).about
    values = [e["numbers"]["classes"]["silhouette"] for e in about["epochs"]]
    page.get_by_role("button", name="Silhouette over the epochs").click()
    dots = page.locator(".numbers .course circle")
    assert dots.count() == 3
    heights = [float(d.get_attribute("cy")) for d in dots.all()]
    assert np.argsort(heights).tolist() == np.argsort([-v for v in values]).tolist()
    warned = 0
    for e in (0, 1, 2):
        dots.nth(e).click()
        assert page.locator(".pane[data-pane='0'] .epoch").inner_text() == f"epoch {e}"
        assert page.locator(".numbers .course text.now").text_content() == f"{values[e]:.2f}"
        warnings = about["epochs"][e]["numbers"]["classes"]["warnings"]
        assert page.locator(".numbers .warning").all_inner_texts() == warnings
        warned += len(warnings)
    assert warned > 0  # a map of an untrained encoder is warned of at least once
