"""`launch.py embed` as a user meets it: the figure of before and after by one command, new images on a map."""

import csv
import json

import pytest

from app.commands import main
from core.studio.jobs import queue as jobs
from core.studio.jobs.steps import Work, load_step
from tests.studio.clusters.conftest import frames


@pytest.fixture
def embed(world, capsys, monkeypatch):
    """embed("--method", "pca", ...): (status, last line as JSON, everything said). Jobs are done here and now."""

    def here(args, store, job, title):
        row = jobs.get_job(store, job)
        load_step(row["step"])(Work(store, row["run"], row["args"]))
        jobs.end(store, job, "done")

    monkeypatch.setattr(jobs, "ensure_worker", lambda store: None)
    monkeypatch.setattr("app.commands.clusters.follow", here)

    def call(*options):
        home = str(world.store.home.path)
        try:
            status = main(["embed", "--run", world.run, "--home", home, "--device", "cpu", "--json", *options])
        except SystemExit as end:
            status = end.code
        out, err = capsys.readouterr()
        return status, json.loads(out.splitlines()[-1]) if out.strip() else {}, err

    return call


@pytest.mark.slow
def test_the_figure_of_before_and_after_by_one_command(embed, tmp_path):
    file = tmp_path / "fig.svg"
    status, answer, said = embed("--method", "pca", "--features", "projected", "--epochs", "ends", "--out", str(file))
    assert status == 0, said
    text = file.read_text()
    assert "(a) untrained encoder" in text and "(b) PMSACL, epoch 2" in text
    for name in ("A₀, normal", "A₁, 1 pasted lesion", "A₃, 3 pasted lesions", "class mean, radius", "frozen centre"):
        assert name in text
    assert "Abnormal, test" not in text and "Normal, test" not in text  # the normal class and the pseudo classes alone
    assert [row["epoch"] for row in answer["rows"]] == [0, 2]
    for row in answer["rows"]:  # the numbers of both panels stand in the figure
        for key in ("silhouette", "davies_bouldin", "knn_purity", "between_within", "trustworthiness"):
            assert f">{row[key]:.2f}<" in text
    assert "silhouette" in said and str(file) in said


def test_all_classes_by_asking_for_them(embed, tmp_path):
    file = tmp_path / "all.svg"
    status, _, said = embed("--method", "pca", "--colour", "class", "--out", str(file))
    assert status == 0, said
    assert "Abnormal, test" in file.read_text() and "Normal, held out" in file.read_text()
    status, answer, _ = embed("--method", "pca", "--colour", "colour", "--out", str(file))
    assert status == 2 and "--colour takes one of class, pseudo, split" in answer["error"]


def test_new_images_are_placed_by_the_verb(embed, tmp_path):
    frames(tmp_path / "ward 3", 4, True, 80)
    (tmp_path / "ward 3" / "broken.png").write_bytes(b"no image")
    figure, rows = tmp_path / "fig.svg", tmp_path / "map.csv"
    options = ("--method", "pca", "--epochs", "ends", "--out", str(figure), "--out", str(rows))
    status, answer, said = embed(*options, "--place", str(tmp_path / "ward 3"))
    assert status == 0, said
    assert len(answer["placed"]["images"]) == 4 and answer["placed"]["left_out"][0][0] == "broken.png"
    assert "placed 4 images of ward 3" in said and "skipped broken.png" in said
    assert "placed: ward 3 (4)" in figure.read_text()
    found = [row for row in csv.DictReader(rows.open()) if row["placed"] == "ward 3"]
    assert len(found) == 8 and {row["epoch"] for row in found} == {"0", "2"}
    last = found[-4:]
    assert [round(float(r["x"]), 5) for r in last] == [i["x"] for i in answer["placed"]["images"]]


def test_mistakes_of_placing_are_sentences(embed, world, tmp_path):
    for options, sentence in (
        (("--place", str(tmp_path / "no")), "does not exist"),
        (("--study", "nobody"), "unknown study 'nobody'"),
        (("--place", str(tmp_path), "--study", world.study), "not allowed with"),
    ):
        status, answer, said = embed("--method", "pca", *options)
        assert status == 2 and sentence in answer.get("error", "") + said
