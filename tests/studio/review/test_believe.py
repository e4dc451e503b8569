"""What a threshold promises and misses, alarms of changed images, and the calibration of scores by decisions."""

from __future__ import annotations

import numpy as np
import pytest

from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.calibration.drift import ALARM
from core.engine.calibration.planted import SIZES
from core.engine.progress import Stopped
from core.studio.ingest.patients import UNKNOWN
from core.studio.review import believe
from core.studio.review.results import scored
from core.studio.runs import records as runs
from core.studio.runs.operating import choose
from tests.conftest import scored_padim
from tests.studio.review.conftest import decide, fill


def scores(store, cases: list[int], values: np.ndarray) -> None:
    with store.write() as db:
        for case, value in zip(cases, values, strict=True):
            row = ["r", case, float(value), float(value), int(value > 2), int(value > 2)]
            db.execute("DELETE FROM readings WHERE run = 'r' AND case_id = ?", [case])
            db.execute(
                "INSERT INTO readings (run, case_id, score, score_roi, flagged, flagged_roi, percentile, created) "
                "VALUES (?, ?, ?, ?, ?, ?, 0, '')",
                row,
            )


@pytest.fixture
def large(store):
    """A study of 240 cases: 60 held out, 60 of the first day, 120 that came later; scores evenly drawn."""
    cases = fill(store, 240)
    store.execute("UPDATE cases SET added = '2026-01-01T00:00:00', label = 'normal'")
    store.execute("UPDATE cases SET split = 'holdout' WHERE id IN (SELECT id FROM cases ORDER BY id LIMIT 60)")
    later = "(SELECT id FROM cases ORDER BY id LIMIT 120 OFFSET 120)"
    store.execute(f"UPDATE cases SET added = '2026-03-12T00:00:00' WHERE id IN {later}")
    return store, cases


def test_the_same_images_raise_no_alarm_and_others_do(large):
    store, cases = large
    rng = np.random.default_rng(0)
    values = np.clip(rng.normal(size=240), None, 1.9)
    scores(store, cases, values)
    found = believe.reliability(store, "large", "r")
    assert found["changed"]["since"] is None and not found["promise"]["paused"]
    assert found["changed"]["caveat"] == found["promise"]["caveat"] == UNKNOWN
    assert found["promise"]["held"] == 60 and "95 % confidence" in found["promise"]["guarantee"]
    scores(store, cases, np.where(np.arange(240) >= 120, values - 1.0, values))
    found = believe.reliability(store, "large", "r")
    assert found["changed"]["since"] == "2026-03-12" and "since 12 March 2026" in found["changed"]["words"]
    assert found["promise"]["paused"] and found["promise"]["guarantee"].startswith("Paused")


def test_one_image_of_each_patient_counts_and_none_of_whom_was_learnt_from(large):
    store, cases = large
    rng = np.random.default_rng(0)
    own = np.repeat(rng.normal(size=80), 3)  # three images of each patient, all alike
    scores(store, cases, np.clip(own, None, 1.9))
    with store.write() as db:
        for number, case in enumerate(cases):
            db.execute("UPDATE cases SET patient = ? WHERE id = ?", [f"p{number // 3}", case])
    found = believe.reliability(store, "large", "r")
    assert found["changed"]["cases"] == 40 and found["changed"]["caveat"] is found["promise"]["caveat"] is None
    assert (
        found["promise"]["held"] == 20 and "on average over draws of held-out patients" in found["promise"]["guarantee"]
    )
    store.execute("UPDATE cases SET split = 'train' WHERE patient = 'p79' AND id = ?", [cases[-1]])
    assert believe.reliability(store, "large", "r")["changed"]["cases"] == 39


def test_each_device_is_a_series_of_its_own(large):
    """Of two devices' new images those of one have changed: the alarm names it, and not the other."""
    store, cases = large
    values = np.clip(np.random.default_rng(0).normal(size=240), None, 1.9)
    for number, case in enumerate(cases):
        store.execute("UPDATE cases SET device = ? WHERE id = ?", [f"scanner {number % 2}", case])
    scores(store, cases, values)
    unchanged = believe.reliability(store, "large", "r")["changed"]
    assert unchanged["since"] is None and unchanged["cases"] == 120
    late = (np.arange(240) >= 120) & (np.arange(240) % 2 == 1)
    scores(store, cases, np.where(late, values - 1.5, values))
    changed = believe.reliability(store, "large", "r")["changed"]
    assert changed["since"] == "2026-03-12"
    assert changed["words"] == "Images of scanner 1 have changed since 12 March 2026"
    assert changed["capital"] >= ALARM


def test_the_first_image_of_a_patient_counts_on_either_side_and_not_the_highest(large):
    """Images of a patient differ, and nothing changes: taking the highest held-out one of each would raise an alarm."""
    store, cases = large
    store.execute("UPDATE cases SET split = 'holdout' WHERE id IN (SELECT id FROM cases ORDER BY id LIMIT 100)")
    scores(store, cases, np.clip(np.random.default_rng(0).normal(size=240), None, 1.9))
    with store.write() as db:
        for number, case in enumerate(cases):
            db.execute("UPDATE cases SET patient = ? WHERE id = ?", [f"p{number // 4}", case])
    changed = believe.reliability(store, "large", "r")["changed"]
    assert changed["cases"] == 30 and changed["since"] is None and changed["capital"] < 10


def test_scores_are_calibrated_by_decisions_once_there_are_enough(large):
    store, cases = large
    rng = np.random.default_rng(1)
    sick = rng.random(240) < 0.5
    values = rng.normal(size=240) + 2 * sick
    scores(store, cases, values)
    assert believe.calibration(store, "large", scored(store, "large", "r")) is None
    for case, ill in list(zip(cases, sick, strict=True))[60:]:
        decide(store, case, "ann", "abnormal" if ill else "normal")
    found = believe.calibration(store, "large", scored(store, "large", "r"))
    assert found["method"].startswith("Platt") and found["cases"] == 180 and found["brier"] < 0.18
    assert all(p["low"] - 0.15 <= p["chance"] <= p["high"] + 0.15 for p in found["points"])
    assert "not known" in found["apart"]


def test_a_calibration_keeps_patients_apart_and_takes_enough_of_them(large):
    """Scores are a number of the patient, whose cases are all decided alike: a fit that saw the patient would know."""
    store, cases = large
    rng = np.random.default_rng(2)
    ill, own = np.repeat(rng.random(48) < 0.5, 5), np.repeat(rng.permutation(48), 5)
    scores(store, cases, own.astype(float))
    with store.write() as db:
        for case, number in zip(cases, own, strict=True):
            db.execute("UPDATE cases SET patient = ? WHERE id = ?", [f"p{number}", case])
    for case, sick in list(zip(cases, ill, strict=True))[60:]:
        decide(store, case, "ann", "abnormal" if sick else "normal")
    found = believe.calibration(store, "large", scored(store, "large", "r"))
    assert found["apart"] == "patients apart" and found["brier"] > 0.2, "no better than a coin"
    store.execute("UPDATE cases SET patient = 'p' || (id % 9) WHERE study = 'large'")
    assert believe.calibration(store, "large", scored(store, "large", "r")) is None


@pytest.mark.slow
def test_lesions_are_planted_into_held_out_normals(tiny_study, store):
    _, fit = scored_padim(store, tiny_study)
    kept = believe.measure(store, fit, "cpu")
    assert {row["size"] for row in kept["planted"]} == set(SIZES) and kept["groups"] == {}
    found = believe.reliability(store, tiny_study, fit)
    assert len(found["planted"]) == len(kept["planted"]) and found["made"] and found["changed"] is None
    assert all(0 <= row["found"]["value"] <= 1 for row in found["planted"])
    assert "synthetic lesions" in believe.as_text(kept, found) and UNKNOWN in believe.as_text(kept, found)


def test_what_the_run_in_use_misses_is_counted_for_any_settings_and_not_stored(tiny_study, store):
    large = MEDMIX_PRESETS["large"]
    with pytest.raises(ValueError, match="No run has scored"):
        believe.planted_sensitivity(store, tiny_study, large)
    _, fit = scored_padim(store, tiny_study)
    found = believe.planted_sensitivity(store, tiny_study, large, "cpu")
    assert found["run"] == fit and {row["size"] for row in found["planted"]} == set(SIZES)
    assert all(row["flagged"] <= row["images"] for row in found["planted"])
    assert believe.KEPT not in runs.get_run(store, fit)["summary"]
    choose(store, tiny_study, fit, "dragged", 1e9, "ann")
    silent = believe.planted_sensitivity(store, tiny_study, large, "cpu")
    assert silent["threshold"] == 1e9 and not any(row["flagged"] for row in silent["planted"]), (
        "the threshold in effect"
    )
    with pytest.raises(Stopped):
        believe.planted_sensitivity(store, tiny_study, large, "cpu", should_stop=lambda: True)


@pytest.mark.slow
def test_pictures_show_how_images_differ(tiny_study, store):
    _, fit = scored_padim(store, tiny_study)
    (few,) = store.columns(
        "SELECT id FROM cases WHERE study = ? AND split = 'test' AND label = 'normal' LIMIT 1", [tiny_study]
    )
    day = {"measure": "sharpness", "usual": 0.1, "new": 0.2, "distance": 1.0, "p": 0.0, "matters": True}
    kept = {"groups": {"2026-03-12": [day]}, "pictures": {"2026-03-12": {"usual": [few[0]], "new": [few[0], 10**9]}}}
    runs.update_run(store, fit, summary={**runs.get_run(store, fit)["summary"], believe.KEPT: kept})
    (group,) = believe.reliability(store, tiny_study, fit)["plain"]
    assert (
        group["of"] == "12 March 2026"
        and group["pictures"] == {"usual": [few[0]], "new": [few[0]]}
        and group["rows"] == [day]
    )
