"""No serious accessibility fault on any tab, by axe-core, at the sizes of a laptop and of an upright tablet."""

from __future__ import annotations

import pytest

from tests.app.review.conftest import WIDGET, enter
from tests.tools import scripts as _scripts

SIZES = ((1366, 768), (800, 1100))
TABS = ("Study", "MedMix", "Training", "Review", "Clusters", "Results", "Report")
# Faults of Gradio's own elements that the page has no say in: rule, what its selector holds, why it stays.
GRADIO: tuple[tuple[str, str, str], ...] = ()
FAULTS = """async () => {
  const found = await axe.run(document, { resultTypes: ['violations'] });
  const also = ['page-has-heading-one', 'landmark-one-main', 'landmark-no-duplicate-main', 'empty-table-header'];
  const counts = (v) => ['serious', 'critical'].includes(v.impact) || also.includes(v.id);
  return found.violations.filter(counts).flatMap((v) =>
    v.nodes.map((n) => ({ rule: v.id, at: n.target.join(' '), html: n.html.slice(0, 160), why: n.failureSummary })));
}"""


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core, brought by npm as the checks of the scripts are."""
    assert _scripts.install() == 0, "npm could not bring what package-lock.json names"
    return (_scripts.MODULES / "axe-core/axe.min.js").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_no_tab_has_a_serious_fault(page, page_url, axe, size, theme):
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    enter(page, page_url)
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    page.evaluate(axe)
    faults = []
    for tab in TABS:
        page.get_by_role("tab", name=tab, exact=True).click()
        page.wait_for_function(
            "name => document.querySelector('[role=tab][aria-selected=true]')?.innerText === name", arg=tab
        )
        page.wait_for_load_state("networkidle")
        faults += [{"tab": tab, **fault} for fault in page.evaluate(FAULTS)]
    page.get_by_role("tab", name="Review", exact=True).click()
    page.evaluate(f"{WIDGET}.review.grid.show(true)")
    page.wait_for_selector(".rv-tile:not(.waits) img[src]")
    page.keyboard.press("Shift+Space")
    page.wait_for_selector(".rv-tile[aria-selected=true]")
    faults += [{"tab": "Review, as a grid", **fault} for fault in page.evaluate(FAULTS)]
    mended = [f for f in faults if not any(f["rule"] == rule and part in f["at"] for rule, part, _ in GRADIO)]
    assert not mended, "\n\n".join(f"{f['tab']}: {f['rule']} at {f['at']}\n{f['html']}\n{f['why']}" for f in mended)
    assert page.evaluate(f"Boolean({WIDGET}.review.picture)")
