"""The report on a tiny study: what is missing is run once, written as page, CSV and LaTeX, and shown on the page."""

from __future__ import annotations

import csv
import json
import re

import cv2
import numpy as np
import pytest
import torch

from app.commands import main
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.comparators.autoencoders import DAE, DAEConfig
from core.engine.progress import Stopped
from core.engine.registry import DETECTORS
from core.engine.training.pretrain import PRETRAIN_PRESETS
from core.studio.db.store import NotFound
from core.studio.jobs import queue as jobs
from core.studio.jobs.steps import STEPS, Work, load_step
from core.studio.report import board as reports
from core.studio.report import cells
from core.studio.report.arms import Arm
from core.studio.report.board import board, missing
from core.studio.report.report import clusters_figure, make_report
from core.studio.report.tables import TABLES, Table
from core.studio.runs import records as runs
from core.studio.runs.pipeline import UNTRAINED
from core.studio.runs.records import list_runs
from core.studio.training.requests import training_forms
from tests.conftest import ARCH
from tests.engine.training.tiny import TINY
from tests.studio.clusters.conftest import snapshots

START = {"encoder.arch": ARCH, "encoder.init": "random"}
BROKEN = Arm("Missing weights", "padim", UNTRAINED, pretrain={"encoder.init": "/nowhere.pth"})
TABLE = Table(
    "detection",
    "Anomaly detection",
    ("auroc", "specificity", "dice"),
    (
        Arm("PaDiM", "padim", UNTRAINED, pretrain=START, fit={"channels": 20}),
        Arm("DAE", "dae", UNTRAINED, pretrain=START, fit={"steps": 3, "width": 4, "batch": 4}),
        BROKEN,
    ),
    (("PaDiM", "DAE"), ("PaDiM", "Missing weights")),
)


def made(store, study, out):
    asked = {"tables": ["detection"], "seeds": 2, "size": 32, "device": "cpu", "bootstrap": 20, "out": str(out)}
    return make_report(store, reports.settings(store, study, **asked))


@pytest.mark.long
def test_the_report_is_run_once_and_written_in_three_forms(store, tiny_study, tmp_path, monkeypatch):
    monkeypatch.setitem(TABLES, "detection", lambda: TABLE)
    payload = made(store, tiny_study, tmp_path)
    padim, dae, broken = payload["tables"]["detection"]
    assert padim["seeds"] == dae["seeds"] == 2 and not padim["error"]
    assert "nowhere.pth" in broken["error"] and payload["missing"] == [f"Missing weights: {broken['error']}"]
    assert padim["paper"]["auroc"] == 0.943 and dae["paper"]["auroc"] == 0.705
    assert dae["memory"] > 1e6 and dae["seconds"] > 0

    claimed = [(c["better"], c["than"], c["metric"], c["roi"]) for c in payload["claims"]]
    assert claimed == [("PaDiM", "DAE", m, roi) for roi in (False, True) for m in ("auroc", "dice")]
    assert all(c["p"] <= c["corrected"] <= 1 for c in payload["claims"])
    gap = padim["values"]["auroc"][0] - dae["values"]["auroc"][0]
    assert payload["claims"][0]["difference"] == pytest.approx(gap)
    assert not payload["own_dataset"]

    page = (tmp_path / "report.html").read_text()
    assert "other images than these" in page and "All rows: ResNet of 0.4 million weights, from random" in page
    assert "<td>DAE*</td>" in page and "<td>PaDiM*</td>" in page
    assert "PaDiM better than DAE" in page and "Not made: " in page and "0.943" in page
    assert "data:image/png;base64," in page
    assert not re.search(r"<script|<link|src=\"(?!data:)|https?://", page), "the page stands alone"
    rows = list(csv.DictReader((tmp_path / "report.csv").open()))
    both = [r for r in rows if r["row"] == "DAE" and r["protocol"] == "paper" and r["roi"] == "0"]
    assert [r["seed"] for r in both] == ["0", "1"]
    values = [float(r["auroc"]) for r in both]
    assert dae["values"]["auroc"] == pytest.approx([np.mean(values), np.std(values, ddof=1)])
    tex = (tmp_path / "report.tex").read_text()
    assert tex.count(r"\begin{table}") == 2 and "(0.705)" in tex and f"{np.mean(values):.3f}" in tex

    written = reports.settings(store, tiny_study, tables=["detection"], seeds=2, size=32)
    shown = board(store, tiny_study, written, roi=False)
    assert shown["done"] == 4 and shown["wanted"] == 6
    ours, _, failed = shown["tables"][0]["rows"]
    assert ours["values"]["auroc"]["mean"] == padim["values"]["auroc"][0] and ours["paper"] == padim["paper"]
    assert [one["fit"] for one in ours["seeds"]] == padim["fits"] and not any(one["fit"] for one in failed["seeds"])

    # A second time everything is found: no run, no training, no evaluation.
    before = [r["id"] for r in list_runs(store, tiny_study)]
    monkeypatch.setattr(cells, "evaluate_run", None)
    again = made(store, tiny_study, tmp_path / "again")
    finished = [r["id"] for r in list_runs(store, tiny_study) if r["status"] == "done"]
    assert set(finished) <= set(before) and len(finished) == 6  # the two arms share an encoder
    assert again["tables"]["detection"][:2] == payload["tables"]["detection"][:2]
    assert again["claims"] == payload["claims"]


@pytest.mark.long
def test_a_new_detector_shows_in_verb_page_and_report_with_no_other_change(
    store, tiny_study, newcomer, home, capsys, tmp_path, monkeypatch
):
    assert training_forms(store)["detectors"][newcomer]["title"] == "Newcomer"
    assert DETECTORS.get(newcomer).preset(None) == DETECTORS.get(newcomer).Config()
    monkeypatch.setitem(PRETRAIN_PRESETS, "quick", TINY)
    line = ["report", "--study", tiny_study, "--tables", "detection", "--rows", "Newcomer", "--seeds", "1", "--size"]
    line += ["32", "--home", str(home.path), "--device", "cpu", "--bootstrap", "0", "--json", "--out", str(tmp_path)]
    assert main(line) == 0
    (row,) = json.loads(capsys.readouterr().out.strip().splitlines()[-1])["tables"]["detection"]
    assert row["label"] == "Newcomer" and 0 <= row["values"]["auroc"][0] <= 1
    assert "Newcomer" in (tmp_path / "report.html").read_text()


def test_mistakes_are_named(home, store, tiny_study, capsys):
    for wrong in (["--tables", "detections"], ["--budget", "lavish"], ["--rows", "Nobody"], ["--dataset", "mnist"]):
        line = ["report", "--study", tiny_study, "--tables", "detection", "--seeds", "0", *wrong]
        assert main([*line, "--home", str(home.path)]) == 2
    said = capsys.readouterr().err
    assert (
        "tables are detection" in said and "budgets" in said and "no row is called Nobody" in said and "mnist" in said
    )


@pytest.mark.long
def test_a_report_is_queued_paused_between_cells_and_gone_on_with(store, tiny_study, tmp_path, monkeypatch):
    """The job's step as a worker calls it, asked to stop after the first cell."""
    asked = {"study": tiny_study, "tables": ["detection"], "rows": ["DAE"], "seeds": [0, 1], "size": 32}
    asked |= {"budget": "quick", "protocol": "paper", "device": "cpu", "bootstrap": 0, "out": str(tmp_path)}
    assert STEPS["report"].long
    monkeypatch.setitem(DAE.presets, "quick", DAEConfig(steps=2, width=4, batch=4))
    seen: list = []
    with pytest.raises(Stopped):
        load_step("report")(Work(store, "", asked, seen.append, lambda: bool(seen)))
    assert seen[-1]["step"] == 1 and seen[-1]["steps"] == 2 and not (tmp_path / "report.html").exists()
    first = [r["id"] for r in list_runs(store, tiny_study) if r["status"] == "done"]
    load_step("report")(Work(store, "", asked, seen.append))
    assert (tmp_path / "report.html").exists() and seen[-1]["message"].startswith("Written: report.html")
    assert str(tmp_path) not in seen[-1]["message"]
    assert set(first) < {r["id"] for r in list_runs(store, tiny_study) if r["status"] == "done"}


@pytest.mark.slow
def test_a_weights_file_is_where_all_rows_start(store, tiny_study, tmp_path):
    file = tmp_path / "theirs" / "narrow.pth"
    file.parent.mkdir()
    torch.save(build_encoder(EncoderConfig(arch=ARCH, seed=7)).net.state_dict(), file)
    settings = reports.settings(
        store, tiny_study, tables=["ssl"], rows=["ImageNet"], seeds=1, network="narrow", weights=str(file), size=32,
        device="cpu", bootstrap=20, out=str(tmp_path / "out"),
    )  # fmt: skip
    payload = make_report(store, settings)
    assert payload["network"] == "All rows: ResNet of 0.4 million weights, from the weights in narrow.pth."
    (row,) = payload["tables"]["ssl"]
    assert not row["error"] and not row["starred"], "what a file holds is not random"
    run = runs.get_run(store, runs.get_run(store, row["fits"][0])["parent"])
    assert run["config"]["encoder"]["init"] == str(file)
    assert "narrow.pth" in run["name"] and str(tmp_path) not in run["name"], "all readers see it"
    assert board(store, tiny_study, settings, roi=False)["done"] == 1
    with pytest.raises(ValueError, match="no weights file at"):
        reports.settings(store, tiny_study, weights=str(tmp_path / "gone.pth"))


@pytest.mark.slow
@pytest.mark.parametrize("saved", [1, 3])
def test_the_first_and_the_last_encoder_stand_side_by_side(store, tiny_study, saved):
    config = {"size": 32, "k": 3, "strong": "medmix", "medmix": {}}
    run = runs.create_run(store, tiny_study, "pretrain", "pmsacl", config)
    snapshots(runs.run_folder(store, run), saved)
    drawn = clusters_figure(store, run)
    if saved == 1:
        assert drawn is None
        return
    picture = cv2.imdecode(np.frombuffer(drawn, np.uint8), cv2.IMREAD_COLOR)
    height, width = picture.shape[:2]
    assert width > 1.2 * height  # two panels
    left, right = picture[:, : width // 2], picture[:, width // 2 :]
    assert all((np.ptp(half.astype(int), axis=2) > 60).sum() > 100 for half in (left, right))  # coloured points in each


ARM = Arm("PaDiM", "padim", UNTRAINED, fit={"channels": 20})


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setitem(TABLES, "detection", lambda: Table("detection", "Anomaly detection", ("auroc",), (ARM,)))


def test_a_study_without_a_report_has_only_the_papers_numbers(store, tiny_study, table):
    shown = board(store, tiny_study, reports.settings(store, tiny_study, tables=["detection"], seeds=3), roi=False)
    assert (shown["done"], shown["wanted"], shown["job"], shown["files"], shown["made"]) == (0, 3, None, [], None)
    (row,) = shown["tables"][0]["rows"]
    assert row["values"] == {} and row["paper"]["auroc"] == 0.943 and not shown["beside"]["own"]
    assert row["seeds"] == [{"seed": seed, "fit": None, "encoder": None} for seed in range(3)]


def test_what_the_last_report_could_not_make_is_said_until_it_is_made(store, tiny_study, table):
    folder = reports.folder(store, tiny_study)
    folder.mkdir(parents=True)
    lines = {"detection": [{"label": "PaDiM", "error": "no weights"}]}
    (folder / "report.json").write_text(json.dumps({"tables": lines, "made": "2026-11-22T02:00:00+00:00"}))
    shown = board(store, tiny_study, reports.settings(store, tiny_study, tables=["detection"]), roi=True)
    assert shown["tables"][0]["rows"][0]["failed"] == "no weights"
    assert shown["files"] == ["json"] and shown["made"].startswith("2026")


def test_missing_cells_take_the_time_of_what_they_train(store, tiny_study, monkeypatch):
    trained = [Arm(name, "padim", pretrain={"k": 2}, fit={"channels": c}) for name, c in (("a", 20), ("b", 30))]
    table = Table("detection", "Anomaly detection", ("auroc",), (ARM, *trained))
    monkeypatch.setitem(TABLES, "detection", lambda: table)

    def asks(seeds, rows=None):
        return missing(
            store, tiny_study, reports.settings(store, tiny_study, tables=["detection"], seeds=seeds, rows=rows)
        )

    one, both = (asks(1, rows)["seconds"] for rows in (["a"], ["a", "b"]))
    fit = asks(1, ["PaDiM"])["seconds"]
    assert one < both < 2 * one and fit < one, "the encoder of two rows is trained once"
    three = asks(3)
    assert three["cells"] == 9 and three["seconds"] == pytest.approx(3 * asks(1)["seconds"], rel=0.01)
    rows = three["rows"]["detection"]
    assert rows.keys() == {"PaDiM", "a", "b"} and sum(rows.values()) == pytest.approx(three["seconds"], abs=0.1)


def test_one_report_at_a_time(store, tiny_study, no_worker):
    settings = reports.settings(store, tiny_study, seeds=1, device="cpu", dataset=None)
    job = reports.submit(store, settings)
    assert reports.job_of(store, tiny_study)["id"] == job and "dataset" not in settings
    assert reports.submit(store, settings) == job
    jobs.cancel(store, job)
    assert reports.submit(store, settings) > job


def test_what_there_is_not_is_named(store, tiny_study):
    with pytest.raises(NotFound):
        reports.settings(store, "nobody")
