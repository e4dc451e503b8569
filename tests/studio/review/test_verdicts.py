"""The verdict on a detector: its promise, chance, too few cases, no labels; and detectors side by side."""

import numpy as np
import pytest

from core.engine.calibration.heatmap import upsample
from core.engine.calibration.outlines import outlined
from core.engine.roi import find_roi
from core.studio.db.store import now
from core.studio.ingest.decode import read_image
from core.studio.review import results
from core.studio.review.cases import scored_runs
from core.studio.review.results import compared
from core.studio.runs import records as runs
from core.studio.runs.readings import pixel_scale, stored_map, unpack_map
from core.studio.runs.records import get_run
from core.studio.runs.results import BASELINE, keep_row
from tests.conftest import scored_padim
from tests.studio.review.conftest import STUDY, drawn_home


@pytest.fixture
def judged(tmp_path):
    """judge(normal scores, abnormal scores, threshold) -> the verdict on a run with these readings."""
    with drawn_home(tmp_path, 6, 40, 30) as (store, scored):
        run = {"id": scored, "title": "PaDiM"}
        query = "SELECT id FROM cases WHERE split = 'test' AND label = ?"
        kinds = {kind: store.columns(query, [kind])[0] for kind in ("normal", "abnormal")}

        def judge(normal, abnormal, threshold):
            with store.write() as db:
                db.execute("UPDATE readings SET score_roi = NULL")
                for ids, scores in ((kinds["normal"], normal), (kinds["abnormal"], abnormal)):
                    for i, score in zip(ids, scores, strict=False):
                        flagged = int(score > threshold)
                        change = "UPDATE readings SET score_roi = ?, flagged_roi = ? WHERE case_id = ?"
                        db.execute(change, [score, flagged, i])
            return results.verdict(run, results.operating_point(store, STUDY, scored))

        yield judge


def test_a_promise_that_does_not_hold_is_bad_and_says_what_to_do(judged):
    normal = [i / 40 for i in range(40)]
    found = judged(normal, [0.5 + i / 40 for i in range(30)], 0.8)
    assert (
        found["level"] == "bad" and "flags 7 of 40 normal ones (17.5 %, 95 % interval 8.7 to 31.9 %)" in found["words"]
    )
    assert "does not hold" in found["words"] and "Hold out normal images" in found["advice"]


def test_a_good_detector_is_said_to_be_good(judged):
    found = judged([i / 100 for i in range(40)], [1 + i for i in range(30)], 0.385)
    assert found["level"] == "good" and found["words"].startswith("Finds 30 of 30 abnormal cases (100.0 %")
    assert "interval 88.6 to 100.0 %) and flags 1 of 40 normal ones (2.5 %" in found["words"]
    assert found["auroc"] == 1 and found["advice"] == ""


@pytest.mark.parametrize(("found", "level"), [(9, "warn"), (22, "warn"), (23, "good"), (30, "good")])
def test_a_detector_that_misses_many_is_not_called_good(judged, found, level):
    normal, abnormal = [i / 100 for i in range(40)], [0.3 + i / 1000 if i >= found else 1 + i for i in range(30)]
    verdict = judged(normal, abnormal, 0.385)
    assert verdict["words"].startswith(f"Finds {found} of 30") and verdict["level"] == level
    assert ("annotate lesions" in verdict["advice"]) == (level == "warn")


def test_chance_few_cases_and_no_labels(judged):
    mixed = judged([i / 40 for i in range(40)], [i / 30 for i in range(30)], 2)
    assert mixed["level"] == "bad" and "no better than chance" in mixed["words"] and mixed["advice"]
    assert judged([i / 100 for i in range(8)], [1 + i for i in range(8)], 1)["level"] == "warn"
    unsure = judged([0, 1, 2, 3, 4, 5], [2.5, 3.5, 4.5, 5.5, 1.5, 6.5], 6)  # AUROC 0.69 of six and six
    assert unsure["level"] == "warn" and unsure["words"].startswith("Too few cases to tell the detector from chance")
    assert judged([0, 1, 2, 3, 4, 5], [0.5, 1.5, 2.5, 0.4, 1.4, 2.4], 6)["level"] == "bad"
    assert judged([0.1] * 5, [], 1)["level"] == "none"


def test_the_variance_of_the_auroc_is_hanley_and_mcneils():
    # 0.5 of 50 and 50: standard error 0.0580 (Hanley and McNeil 1982, equation 1, worked by hand)
    assert results.auroc_variance(0.5, 50, 50) ** 0.5 == pytest.approx(0.058, abs=2.5e-4)
    assert results.auroc_variance(1.0, 5, 5) == 0


@pytest.mark.slow
def test_the_share_of_normal_images_that_are_outlined_is_counted_on_their_maps(store, tiny_study):
    """The same by drawing each outline, at two operating points: what is not flagged is not outlined."""
    _, run = scored_padim(store, tiny_study)
    scale, counted = pixel_scale(get_run(store, run)), []
    normal = store.query(
        "SELECT id, path FROM cases WHERE study = ? AND split = 'test' AND label = 'normal'", [tiny_study]
    )
    for flagged in (0, 1):
        store.execute("UPDATE readings SET flagged_roi = ? WHERE run = ?", [flagged, run])
        drawn = 0
        for case in normal if flagged else ():
            row, image = stored_map(store, run, case["id"]), read_image(case["path"], 0)
            heat, roi = upsample(unpack_map(row)[None], image.shape[:2]), find_roi(image)[None] > 0
            drawn += bool(outlined(heat, row["outline"], scale, roi).any())
        found = results.outlined_normals(store, run, results.scored(store, tiny_study, run))
        assert (found["hits"], found["n"]) == (drawn, len(normal)) and found["value"] == drawn / len(normal)
        counted.append(drawn)
    assert counted[0] == 0 and np.diff(counted) >= 0


def row(detector, run, roi, auroc, **more):
    of = {"detector": detector, "run": run, "roi": roi, "protocol": "held-out", "masks": "reference", "set": "a"}
    return {**of, "cases": 12, "auroc": auroc, **more}


def test_rows_are_those_of_the_region_asked_for_and_the_best_is_marked(store, tiny_study):
    parent = runs.create_run(store, tiny_study, "pretrain", "pmsacl", {"size": 32})
    case = store.one("SELECT id FROM cases WHERE study = ?", [tiny_study])["id"]
    made = {m: runs.create_run(store, tiny_study, "fit", m, {}, parent=parent) for m in ("padim", "igd", "lesion-head")}
    for day, run in enumerate(made.values(), 1):
        store.execute("UPDATE runs SET created = ? WHERE id = ?", [f"2026-01-0{day}", run])
        store.execute("INSERT INTO readings (run, case_id, score, created) VALUES (?, ?, 1, ?)", [run, case, now()])
    keep_row(store, tiny_study, made["padim"], row("padim", made["padim"], True, 0.9, auroc_ci=[0.8, 0.95], pro=0.2))
    keep_row(store, tiny_study, made["padim"], row("padim", made["padim"], False, 0.1))
    keep_row(store, tiny_study, made["lesion-head"], row("lesion-head", made["lesion-head"], True, 0.8, pro=0.5))
    keep_row(store, tiny_study, None, row(BASELINE, None, True, 0.6))
    listed = scored_runs(store, tiny_study)
    found = compared(store, tiny_study, listed)
    assert [r["run"] for r in found] == [made["lesion-head"], made["igd"], made["padim"], None]
    assert [r["auroc"] for r in found] == [0.8, None, 0.9, 0.6]
    assert [r["best"] for r in found] == [["pro"], [], ["auroc"], []]
    assert found[2]["auroc_ci"] == [0.8, 0.95] and found[2]["encoder"] == "pmsacl"
    assert [r["auroc"] for r in compared(store, tiny_study, listed, roi=False)] == [None, None, 0.1]
