"""The Report tab in a real browser: what is made, what is missing, and where a cell leads."""

import pytest

from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.report import arms as runner
from core.studio.report import cells, tables
from core.studio.runs import records as runs
from core.studio.runs.results import evaluate_run
from tests.app.conftest import Served, open_tab
from tests.studio.review.conftest import add_readings, draw_folder

pytestmark = pytest.mark.long

STUDY = "report"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A served home in which the first cell of a table is made: (server, fit, encoder, row's label)."""
    base = tmp_path_factory.mktemp("report")
    store = opening.open(str(base / "home"))
    studies.import_study(store, STUDY, draw_folder(base / "images", 12, 8, 8))
    (table,) = tables.tables_of(["ssl"], "quick", ["SimCLR"])
    arm = table.arms[0]
    name, config = runner._encoder_of(arm, 0, 64)
    encoder = runs.create_run(store, STUDY, "pretrain", arm.encoder, config.to_dict(), name=name)
    fit = add_readings(store, STUDY, "padim", seed=0)
    fit_name = runner._fit_of(arm, encoder, 0)[0]
    store.execute("UPDATE runs SET parent = ?, name = ? WHERE id = ?", [encoder, fit_name, fit])
    runs.update_run(store, fit, summary={"threshold": 0.5})
    for protocol, rule in cells.RULES.items():
        for roi in (False, True):
            evaluate_run(store, fit, roi, protocol, pixel_rule=rule, bootstrap=0)
    server = Served(base / "home")
    yield server, fit, encoder, arm.label
    server.stop()
    store.close()


@pytest.fixture
def page_url(made):
    return made[0].url


def test_a_made_cell_shows_its_figures_and_leads_to_its_run(page, page_url, made):
    _, fit, encoder, label = made
    open_tab(page, page_url, "Report", STUDY)
    row = page.locator(".rp-board", has_text="Self-supervised").locator("tr", has_text=label)
    row.wait_for()
    figure, published = row.locator("td").nth(1).inner_text().split()
    assert 0.5 < float(figure) <= 1 and published == "0.945"
    assert row.locator(".rp-seeds button").count() == 1 and row.locator(".rp-seeds i").count() == 1
    assert "other images" in page.locator(".rp-beside").inner_text()

    row.get_by_role("button", name=f"{label}, seed 0").click()
    page.get_by_text("The encoder's run").click()
    page.get_by_role("button", name="Open", exact=True).click()
    page.wait_for_selector(f"tr.chosen[data-run='{encoder}']")

    page.get_by_role("tab", name="Report").click()
    row.get_by_role("button", name=f"{label}, seed 0").click()
    page.get_by_role("button", name="Open", exact=True).click()
    page.wait_for_function(f"() => document.querySelector('.widget-review').review?.run === '{fit}'")


def test_rows_that_are_not_made_stand_grey_with_their_time(page, page_url, made):
    open_tab(page, page_url, "Report", STUDY)
    board = page.locator(".rp-board", has_text="Self-supervised")
    grey = board.locator("tr.rp-none")
    grey.first.wait_for()
    assert grey.count() == board.locator("tbody tr").count() - 1, "all but the row with a cell"
    grey.first.filter(has_text="about ").wait_for()
    assert grey.locator("small").count() > 0, "the published figures stand there already"


def test_tables_that_are_not_wanted_are_left_out(page, page_url, made):
    open_tab(page, page_url, "Report", STUDY)
    page.locator(".rp-board").nth(7).wait_for()
    make = page.locator(".make")
    before = int(make.inner_text().split()[1])
    page.get_by_role("button", name="Centring, IGD").click()
    page.wait_for_function("() => document.querySelectorAll('.rp-board').length === 7")
    assert before - int(make.inner_text().split()[1]) == 8  # four rows, two seeds


def test_missing_cells_are_made_after_their_time_is_confirmed(page, page_url, made):
    jobs = lambda: opening.open(str(made[0].home)).first("SELECT count(*) AS n FROM jobs")["n"]  # noqa: E731
    open_tab(page, page_url, "Report", STUDY)
    page.locator(".rp-board").nth(7).wait_for()
    before = jobs()
    page.locator(".make").click()
    dialog = page.locator("dialog.ask")
    dialog.wait_for()
    assert " cells to make: about " in dialog.inner_text()
    dialog.get_by_role("button", name="Cancel").click()
    dialog.wait_for(state="detached")
    assert jobs() == before
