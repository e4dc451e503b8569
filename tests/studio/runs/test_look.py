"""A first look: one job from pretrained features to readings, at a side that depends on the images alone."""

import pytest

from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.studio.clusters import library
from core.studio.ingest.studies import import_study
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.report.arms import Arm, _at_side, _encoder_of
from core.studio.runs import look, sides
from core.studio.runs import records as runs
from core.studio.runs.pipeline import create_fit, create_pretrain
from core.studio.runs.readings import size_of
from tests.conftest import ARCH, plain_folder


@pytest.mark.slow
def test_a_look_scores_every_case_and_keeps_its_encoder(store, tiny_study):
    encoder = look.create_untrained(store, tiny_study, 32, init="random", arch=ARCH)
    made = {"encoder": encoder, "fit": look.create_fit(store, encoder, "padim", name=look.NAME)}
    job = jobs.submit(store, look.look_steps(store, made, device="cpu"), start=False)
    worker.run_queue(store)
    assert jobs.get_job(store, job)["status"] == "done", jobs.get_job(store, job)["error"]
    (shown,) = library.list_maps(store, tiny_study)
    assert shown["ready"] and shown["run"] == encoder and shown["points"] == 36, "Clusters shows the study at once"
    assert runs.get_run(store, made["fit"])["status"] == "done"
    scored = store.one("SELECT count(*) AS n FROM readings WHERE run = ?", [made["fit"]])["n"]
    cases = store.one("SELECT count(*) AS n FROM cases WHERE study = ? AND split != 'train'", [tiny_study])["n"]
    assert scored == cases > 0
    again = look.look_steps(store, made, device="cpu")
    assert [s["step"] for s in again] == ["fit", "score", "evaluate", "embed"]


@pytest.mark.slow
@pytest.mark.parametrize("normals", [5, 12])
def test_a_study_of_few_normals_is_looked_at(store, tmp_path, normals):
    study = import_study(store, "few", plain_folder(tmp_path / "images", normals, 2, 3)).study
    encoder = look.create_untrained(store, study, 32, init="random", arch=ARCH)
    made = {"encoder": encoder, "fit": look.create_fit(store, encoder, "blend", name=look.NAME)}
    job = jobs.submit(store, look.look_steps(store, made, device="cpu"), start=False)
    worker.run_queue(store)
    assert jobs.get_job(store, job)["status"] == "done", jobs.get_job(store, job)["error"]
    assert store.one("SELECT count(*) AS n FROM readings WHERE run = ?", [made["fit"]])["n"] >= 5


def test_the_bundled_weights_are_what_a_look_starts_from(store, tiny_study):
    made = look.create_look(store, tiny_study)
    config = runs.get_run(store, made["encoder"])["config"]
    assert config["encoder"] == {"arch": "efficientnet-lite0", "init": "imagenet", "seed": 0} and config["size"] == 224
    assert runs.get_run(store, made["fit"])["method"] == "blend"
    steps = look.look_steps(store, made, evaluate=False)
    assert [s["step"] for s in steps] == ["pretrain", "fit", "score", "embed"] and not any(
        s["args"]["aids"] for s in steps[:3]
    )


def test_a_look_goes_on_at_the_size_of_the_one_before(store, tiny_study):
    made = look.create_look(store, tiny_study, size=64)
    runs.update_run(store, made["encoder"], status="done")
    assert look.create_look(store, tiny_study)["encoder"] == made["encoder"]
    assert look.create_look(store, tiny_study, size=96)["encoder"] != made["encoder"]


def test_the_job_of_a_look_ends_with_the_map_of_its_features(store, tiny_study):
    job = look.look(store, tiny_study, "cpu", start=False)["job"]
    assert [s["step"] for s in jobs.get_job(store, job)["chain"]][-3:] == ["score", "evaluate", "embed"]


def filled(store, study, count, width, height):
    store.execute("DELETE FROM cases WHERE study = ?", [study])
    with store.write() as db:
        same = {"study": study, "split": "test", "label": "normal", "added": "", "width": width, "height": height}
        db.table("cases").insert_all({**same, "name": str(i), "path": str(i), "row": i} for i in range(count))


@pytest.mark.slow
@pytest.mark.parametrize(
    "count, width, height, side",
    [
        (500, 800, 600, 224),  # the usual: a minute of two cores
        (20_000, 800, 600, 224),
        (180, 771, 512, 352),  # few and large: 373 pixels would do, in steps of 32
        (20, 771, 512, 384),
        (20, 300, 270, 256),  # never more than there is to be seen
        (20, 100, 80, 224),
        (0, 0, 0, 224),
    ],
)
def test_few_and_large_images_are_looked_at_more_closely(store, tiny_study, count, width, height, side):
    filled(store, tiny_study, count, width, height)
    assert sides.side_for(store, tiny_study) == side
    for arch, used in ((sides.ARCH, side), ("vit_tiny_patch16_224", sides.SIZE)):
        made = look.create_look(store, tiny_study, arch)
        assert runs.get_run(store, made["encoder"])["config"]["size"] == used


@pytest.mark.slow
@pytest.mark.parametrize(
    "count, changes, side",
    [
        (180, {}, 352),
        (20_000, {}, 224),
        (180, {"fit_closer": False}, 224),
        (180, {"fit_size": 0, "fit_closer": False, "size": 96}, 96),
        (180, {"fit_size": 384}, 384),  # closer than the rule already
        (180, {"encoder.arch": "resnet18"}, 224),
    ],
)
def test_detectors_on_a_trained_encoder_look_as_closely(store, tiny_study, count, changes, side):
    filled(store, tiny_study, count, 771, 512)
    encoder = create_pretrain(store, tiny_study, PRETRAIN_PRESETS["imagenet"].replace(**changes))
    fit = create_fit(store, encoder, "padim")
    filled(store, tiny_study, 5, 2000, 2000)  # cases that come later do not change what it was fitted at
    assert size_of(store, runs.get_run(store, fit)) == side
    asked = create_fit(store, encoder, "padim", size=160)
    assert size_of(store, runs.get_run(store, asked)) == 160


def test_an_experiment_looks_closer_where_its_arm_says_so(store, tiny_study):
    """So that arms on different encoders see the same images at the same side."""
    filled(store, tiny_study, 180, 771, 512)
    arm = Arm("PaDiM", "padim", preset="imagenet", sized=False)
    assert (
        _at_side(store, tiny_study, arm) == arm
        and _at_side(store, tiny_study, arm.replace(closer=True)).fit_size == 352
    )
    _, config = _encoder_of(arm, 0, 224)
    encoder = create_pretrain(store, tiny_study, config)
    assert size_of(store, runs.get_run(store, create_fit(store, encoder, "padim"))) == 224
