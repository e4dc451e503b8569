"""The way of the data on a tiny study, and a training that is killed in its middle."""

import os
import signal

import numpy as np
import pytest
from safetensors.numpy import load_file

from core.engine.calibration.heatmap import upsample
from core.engine.calibration.outlines import level_of, outlined, peaks
from core.engine.calibration.percentiles import PixelScale
from core.engine.training.pretrain import PRETRAIN_PRESETS
from core.studio.db import journal
from core.studio.ingest.studies import import_study, load_arrays
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.runs import pipeline, results
from core.studio.runs import records as runs
from core.studio.runs.readings import pack_map, read_maps, unpack_map
from tests.conftest import ARCH, plain_folder, scored_padim, wait
from tests.holding import held

LEVELS = "SELECT case_id, json_extract(extra, '$.outline') AS level FROM readings"
TINY = PRETRAIN_PRESETS["quick"].replace(
    size=32, epochs=2, batch=6, snapshot_every=1, centre_images=6, **{"encoder.arch": ARCH}
)


@pytest.fixture
def scored(store, tiny_study):
    """(encoder run, fit run) of PaDiM on an encoder that was not trained, scored."""
    return scored_padim(store, tiny_study)


@pytest.mark.slow
def test_every_held_out_and_test_case_has_a_reading(store, tiny_study, scored):
    rows = store.query("SELECT r.*, c.split, c.label FROM readings r JOIN cases c ON c.id = r.case_id")
    assert sorted(r["split"] for r in rows) == ["holdout"] * 6 + ["test"] * 12
    held = np.sort([r["score"] for r in rows if r["split"] == "holdout"])
    for row in rows:
        assert row["percentile"] == pytest.approx(100 * (held < row["score"]).mean())
        assert row["flagged"] == int(row["percentile"] >= 95)
        heat = unpack_map(row)
        assert heat.shape == (8, 8) and heat.max() == pytest.approx(row["score"], rel=1e-4)
        assert row["score_roi"] <= row["score"] + 1e-6
    summary = runs.get_run(store, scored[1])["summary"]
    assert summary["scored"] == 18 and summary["pixels"]["lo"] < summary["pixels"]["hi"]


@pytest.mark.slow
def test_a_bright_lesion_is_found_and_evaluation_prints_both_regions(store, tiny_study, scored):
    inside = results.evaluate_run(store, scored[1], True, bootstrap=50)
    whole = results.evaluate_run(store, scored[1], False, bootstrap=50)
    for row, roi in ((inside, True), (whole, False)):
        assert (row["encoder"], row["detector"], row["roi"], row["protocol"]) == ("untrained", "padim", roi, "held-out")
        assert row["auroc"] > 0.9 and row["pixel_auroc"] > 0.7 and row["auroc_ci"][0] <= row["auroc"]
        assert (row["n_normal"], row["n_abnormal"]) == (6, 6)
    results.evaluate_run(store, scored[1], True, bootstrap=50)
    assert len(results.evaluations(store, tiny_study, scored[1])) == 2, "the same row is replaced"


@pytest.mark.slow
def test_outlines_follow_each_image_in_readings_and_results(store, tiny_study, scored):
    kept = runs.get_run(store, scored[1])["summary"]
    scale = results.pixels_of({"summary": kept})
    assert scale == PixelScale.of(kept["pixels"]) and 0.1 <= scale.share <= 0.9
    arrays = load_arrays(store, tiny_study, 32)
    levels = {r["case_id"]: r["level"] for r in store.query(LEVELS)}
    for case, roi in zip(arrays.case_ids, arrays.roi, strict=True):
        if case in levels:
            maps = read_maps(store, scored[1], [case])
            assert levels[case] == pytest.approx(level_of(peaks(maps, roi[None], scale), scale)[0], abs=1e-3)
    assert len(set(levels.values())) > 3
    row = results.evaluate_run(store, scored[1], True, bootstrap=0)
    assert row["outline_share"] == scale.share and 0 < row["outlined"] < 1
    sick = arrays.index("test", label="abnormal")
    maps, roi = read_maps(store, scored[1], arrays.case_ids[sick]), np.asarray(arrays.roi[sick]) > 0
    found = outlined(upsample(maps, 32), level_of(peaks(maps, roi.astype(np.uint8), scale), scale), scale, roi)
    truth = (np.asarray(arrays.masks[sick]) > 0) & roi
    dice = 2 * (found & truth).sum((1, 2)) / (found.sum((1, 2)) + truth.sum((1, 2)))
    assert row["dice"] == pytest.approx(np.nanmean(dice[truth.any((1, 2))]))


def test_the_mean_colour_baseline_has_a_row(store, tiny_study):
    row = results.baseline_row(store, tiny_study, 32, bootstrap=50)
    assert (row["detector"], row["encoder"], row["pixel_auroc"]) == ("mean-colour", None, None)
    assert 0 <= row["auroc"] <= 1


@pytest.mark.slow
def test_maps_survive_the_store(store, scored):
    heat = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    assert np.abs(unpack_map(pack_map(heat)) - heat).max() <= (heat.max() - heat.min()) / 65535
    ids = np.array([r["case_id"] for r in store.query("SELECT case_id FROM readings ORDER BY case_id DESC")])
    assert read_maps(store, scored[1], ids).shape == (18, 8, 8)


def test_what_is_out_of_order_is_said(store, tiny_study, tmp_path):
    encoder = pipeline.create_untrained(store, tiny_study, 32, arch=ARCH)
    fit = pipeline.create_fit(store, encoder, "padim")
    with pytest.raises(ValueError, match="must be trained"):
        pipeline.fit_run(store, fit)
    with pytest.raises(ValueError, match="not a finished fit"):
        pipeline.score_run(store, fit)
    pipeline.pretrain_run(store, encoder)
    pipeline.fit_run(store, fit, "cpu")
    with pytest.raises(ValueError, match="score the study first"):
        results.evaluate_run(store, fit)
    with pytest.raises(ValueError, match="no detector is called 'nothing'"):
        pipeline.create_fit(store, encoder, "nothing")
    only = import_study(store, "only", plain_folder(tmp_path / "only", 8, 0, 0)).study
    with pytest.raises(ValueError, match="needs labelled normal and abnormal"):
        results.baseline_row(store, only, 32)


@pytest.mark.slow
def test_a_chain_from_one_submit(store, tiny_study):
    encoder = pipeline.create_pretrain(store, tiny_study, TINY)
    fit = pipeline.create_fit(store, encoder, "padim", {"channels": 20})
    job = jobs.submit(store, pipeline.chain(encoder, [fit], device="cpu"), start=False)
    worker.run_queue(store)
    row = jobs.get_job(store, job)
    assert row["status"] == "done", row["error"]
    assert runs.get_run(store, encoder)["status"] in ("done", "collapsed")
    assert {"loss", "l_ctr", "l_con", "l_aug"} <= set(journal.metrics(store, encoder))
    assert {r["roi"] for r in results.evaluations(store, tiny_study, fit)} == {True, False}
    assert sorted(p.name for p in (runs.run_folder(store, encoder) / "epochs").iterdir()) == ["0000", "0001", "0002"]


def weights(store, run):
    return load_file(runs.run_folder(store, run) / "encoder.safetensors")


@pytest.mark.long
def test_kill_minus_nine_in_mid_training_then_resume_gives_the_same_weights(store, tiny_study):
    config = TINY.replace(epochs=40)
    calm, killed = (pipeline.create_pretrain(store, tiny_study, config) for _ in range(2))
    load_arrays(store, tiny_study, 32)
    job = jobs.submit(store, pipeline.chain(killed, device="cpu"))
    with held(store.home.path, killed, after=6) as process:
        os.kill(process, signal.SIGKILL)
    wait(lambda: jobs.reap(store))
    assert runs.get_run(store, killed)["status"] == "interrupted"
    jobs.resume(store, job)
    pipeline.pretrain_run(store, calm, "cpu")
    wait(lambda: jobs.get_job(store, job)["status"] not in ("queued", "running"), 280)
    assert jobs.get_job(store, job)["status"] == "done", jobs.get_job(store, job)["error"]
    ours, theirs = weights(store, killed), weights(store, calm)
    assert ours.keys() == theirs.keys()
    assert all((ours[name] == theirs[name]).all() for name in ours)
    steps = [s for s, _ in journal.metrics(store, killed)["loss"]]
    assert steps == list(range(1, len(steps) + 1)), "no step lost, none twice"
