"""The figures below a map, over its epochs."""

from __future__ import annotations

import pytest

from core.studio.clusters import library


def test_numbers_show_their_course_and_where_they_disagree_with_the_map(maps, mapped):
    page, about = maps.page, library.open_map(mapped[1], mapped[3][1]).about
    values = [e["numbers"]["classes"]["silhouette"] for e in about["epochs"]]
    page.get_by_role("button", name="Silhouette over the epochs").click()
    page.locator(".numbers .course .chart canvas").wait_for()
    last = page.locator(".numbers .course .legend").inner_text().split()[-1]
    assert float(last) == pytest.approx(values[-1], abs=0.01)
    warned = 0
    for e in (0, 1, 2):
        page.evaluate(f"document.querySelector('.widget-clusters').scatter.panes[0].seek({e})")
        page.locator(".pane[data-pane='0'] .epoch").filter(has_text=f"epoch {e}").wait_for()
        warnings = about["epochs"][e]["numbers"]["classes"]["warnings"]
        assert page.locator(".numbers .warning").all_inner_texts() == warnings
        warned += len(warnings)
    assert warned > 0  # a map of an untrained encoder is warned of at least once
