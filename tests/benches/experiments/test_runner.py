"""Experiments: every arm with every seed, nothing done twice, and a choice that needs no test image."""

import numpy as np
import pytest

from core.engine.detectors.base import Prediction
from core.engine.detectors.lesion_head.synth import JUDGES, judge
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.registry import DETECTORS
from core.studio.report.arms import Arm
from core.studio.runs.pipeline import UNTRAINED
from core.studio.runs.records import list_runs
from tests.benches.experiments.claims import claims_markdown, claims_of_rows
from tests.benches.experiments.marks import OWN
from tests.benches.experiments.plans import CLAIMS, EXPERIMENTS, JUDGED
from tests.benches.experiments.report import markdown, summarise
from tests.benches.experiments.runner import run_plan
from tests.conftest import ARCH

NARROW = {"encoder.arch": ARCH}
ARMS = [
    Arm("PaDiM", "padim", UNTRAINED, pretrain=NARROW, fit={"channels": 20}),
    Arm("head", "lesion-head", UNTRAINED, pretrain=NARROW, fit={"steps": 3, "batch": 4, "width": 16}),
]


@pytest.mark.long
def test_arms_by_seeds_and_a_second_time_for_nothing(store, tiny_study):
    lines = []
    rows = run_plan(store, tiny_study, ARMS, [0, 1], size=32, device="cpu", bootstrap=20, report=lines.append)
    assert [(r["label"], r["seed"], r["roi"]) for r in rows] == [
        (label, seed, roi) for seed in (0, 1) for label in ("PaDiM", "head") for roi in (True, False)
    ]
    assert len(lines) == 4 and "synthetic_auroc" not in rows[0]
    before = [r["id"] for r in list_runs(store, tiny_study)]
    again = run_plan(store, tiny_study, ARMS, [0, 1], size=32, device="cpu", bootstrap=20, report=lines.append)
    assert [r["id"] for r in list_runs(store, tiny_study)] == before, "what is done is kept"
    assert [r["auroc"] for r in again] == [r["auroc"] for r in rows]
    lines = summarise(rows)
    line = next(x for x in lines if x["label"] == "PaDiM" and x["roi"])
    values = [r["auroc"] for r in rows if r["label"] == "PaDiM" and r["roi"]]
    assert line["auroc"] == pytest.approx(np.mean(values)) and line["auroc_sd"] == pytest.approx(np.std(values, ddof=1))
    assert "PaDiM" in markdown(lines) and "synthetic" not in markdown(lines)


@pytest.mark.slow
def test_judged_rows_hold_synthetic_figures(store, tiny_study):
    rows = run_plan(store, tiny_study, ARMS[:1], [0], size=32, device="cpu", bootstrap=0, judged=True)
    row = next(r for r in rows if r["roi"])
    assert row["synthetic_auroc"] == pytest.approx(np.mean([v["auroc"] for v in row["families"].values()]))
    assert "synthetic pixel AUROC" in markdown(summarise(rows))


class Peeks:
    """A detector that knows the normal images by heart: its map is what was changed."""

    def __init__(self, normal):
        self.normal = normal.astype(np.float32)

    def predict(self, images, **_):
        return Prediction(np.abs(images - self.normal).mean(3).astype(np.float32))

    def image_score(self, prediction, roi=None):
        return prediction.maps.reshape(len(prediction), -1).max(1)


def test_judge_agrees_with_one_that_knows_the_answer():
    images = np.random.default_rng(0).integers(0, 256, (8, 64, 64, 3), dtype=np.uint8)
    found = judge(Peeks(images), images, None, ("medmix:foreign", "medmix:stain"))
    assert set(found) == {"medmix:foreign", "medmix:stain"}
    assert all(v["auroc"] == 1.0 and v["pixel_auroc"] > 0.95 for v in found.values())
    blind = judge(Peeks(np.roll(images, 1, 0)), images, None, ("medmix:stain",))
    assert blind["medmix:stain"]["pixel_auroc"] < 0.8


def test_the_families_experiment_never_judges_by_what_it_trains_on():
    from core.engine.detectors.lesion_head.config import LESION_PRESETS

    assert "families" in JUDGED
    for arm in EXPERIMENTS["families"]():
        trained = arm.fit.get("families") or LESION_PRESETS[arm.fit_preset].families
        assert not set(trained) & set(JUDGES), arm.label


@pytest.mark.slow
def test_claims_are_tested_on_the_same_images(store, tiny_study):
    one, two = (Arm(n, "padim", UNTRAINED, pretrain=NARROW, fit={"channels": c}) for n, c in (("one", 20), ("two", 8)))
    arms = [one, two]
    rows = run_plan(store, tiny_study, arms, [0], size=32, device="cpu", bootstrap=0)
    found = claims_of_rows(store, arms, [("one", "two"), ("one", "absent")], rows)
    by_arm = {r["label"]: r for r in rows if r["roi"]}
    gap = next(c for c in found if c.metric == "auroc")
    assert {c.than for c in found} == {"two"} and 0 <= gap.p <= gap.corrected <= 1
    assert gap.difference == pytest.approx(by_arm["one"]["auroc"] - by_arm["two"]["auroc"])
    assert "| one | two | auroc |" in claims_markdown(found)


def test_every_arm_can_be_made():
    for arm in (arm for plan in EXPERIMENTS.values() for arm in plan()):
        kind = DETECTORS.get(arm.detector)
        (getattr(kind, "presets", {}).get(arm.fit_preset) or kind.Config()).replace(
            **{k: v for k, v in arm.fit.items() if k not in OWN}
        )
        if arm.encoder != UNTRAINED:
            PRETRAIN_PRESETS[arm.preset].replace(**arm.pretrain)
    assert all({a.label for a in EXPERIMENTS[name]()} >= set(sum(pairs, ())) for name, pairs in CLAIMS.items())
