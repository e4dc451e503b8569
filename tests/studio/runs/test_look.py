"""A first look: one job from pretrained features to readings, its encoder shared by later looks."""

import pytest

from core.studio.clusters import library
from core.studio.ingest.studies import import_study
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.runs import look
from core.studio.runs import records as runs
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


def test_an_encoder_that_is_there_is_looked_with_again(store, tiny_study):
    made = look.create_look(store, tiny_study)
    runs.update_run(store, made["encoder"], status="done")
    assert look.create_look(store, tiny_study)["encoder"] == made["encoder"]


def test_the_job_of_a_look_ends_with_the_map_of_its_features(store, tiny_study):
    job = look.look(store, tiny_study, "cpu", start=False)["job"]
    assert [s["step"] for s in jobs.get_job(store, job)["chain"]][-3:] == ["score", "evaluate", "embed"]
