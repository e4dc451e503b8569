"""The job that brings new files in: they are scored as the others were, and a bad one is left out."""

import numpy as np
import pytest

from core.studio.incoming import job as take
from core.studio.incoming import watch
from core.studio.ingest import studies
from core.studio.jobs.steps import Work, load_step
from core.studio.runs import pipeline
from tests.conftest import picture, scored_padim, write
from tests.studio.incoming.conftest import look, run_jobs
from tests.studio.ingest.recordings import write_video
from tests.studio.review.conftest import list_of


@pytest.mark.slow
def test_what_came_is_scored_as_scoring_everything_would(watched, clock):
    store, study, folder = watched
    _, fit = scored_padim(store, study)
    before = "SELECT case_id, created FROM readings WHERE case_id IN (SELECT id FROM cases WHERE label != 'unknown')"
    old = store.query(before)
    write(folder / "bright.png", picture(80, blob=True)[0])
    write_video(folder / "exam.avi", 60, "MJPG", rate=25)
    look(store, clock)
    run_jobs(store)
    new = store.query("SELECT id FROM cases WHERE split = 'test' AND label = 'unknown'")
    assert len(new) == 1 + 3  # one frame a second of 2.4 seconds
    query = (
        "SELECT r.*, c.name FROM readings r JOIN cases c ON c.id = r.case_id WHERE c.label = 'unknown' ORDER BY c.id"
    )
    soon = store.query(query)
    assert [r["case_id"] for r in soon] == sorted(c["id"] for c in new) and {r["run"] for r in soon} == {fit}
    assert old and store.query(before) == old  # what was read is not read again
    assert "4 scored by" in watch.get_watch(store, study)["message"]
    shown = list_of(store, None, "reader", study, fit).page()["rows"]
    assert {r["id"] for r in shown} >= {c["id"] for c in new}
    pipeline.score_run(store, fit, "cpu")
    for soon_row, late_row in zip(soon, store.query(query), strict=True):
        for column in ("score", "score_roi", "percentile", "percentile_roi"):
            assert late_row[column] == pytest.approx(soon_row[column], rel=1e-5), column
        assert late_row["flagged"] == soon_row["flagged"]
    assert all(np.isfinite(r["score"]) for r in soon)


@pytest.mark.slow
def test_cases_added_by_hand_are_scored_in_a_study_that_is_not_watched(store, tiny_study, tmp_path):
    _, fit = scored_padim(store, tiny_study)
    studies.add_cases(store, tiny_study, [write(tmp_path / "by-hand.png", picture(81)[0])])
    load_step("import")(Work(store, "", {"study": tiny_study}))
    query = "SELECT r.run FROM readings r JOIN cases c ON c.id = r.case_id WHERE c.name = 'by-hand.png'"
    assert store.query(query) == [{"run": fit}]


def test_a_file_that_ends_the_process_is_left_out_at_last(watched, clock, monkeypatch):
    store, study, folder = watched
    write(folder / "evil.png", picture(95)[0])
    look(store, clock)

    class Ended(BaseException):
        pass

    def end(*args, **kw):
        raise Ended

    monkeypatch.setattr(take, "add_cases", end)
    for _ in range(take.TRIES):
        with pytest.raises(Ended):
            load_step("import")(Work(store, "", {"study": study}))
    load_step("import")(Work(store, "", {"study": study}))
    assert "crashed the process" in watch.get_watch(store, study)["left_out"][0]["note"]
