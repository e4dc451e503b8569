"""Which study an experiment is made on, and what stays of it."""

import json
from types import SimpleNamespace

import pytest

from app.commands._common import UserError
from core.studio.ingest.studies import list_studies
from tests.benches.experiments.marks import MEASURES
from tests.benches.experiments.verbs import study_of
from tests.conftest import plain_folder
from tests.tools import main


def asked(**options):
    return SimpleNamespace(**{"data": None, "study": None, "patients": None, **options})


@pytest.mark.parametrize("name", ["chest_xray_2", "Colon Pictures", "plain"])
def test_a_folder_is_imported_once_whatever_its_name(store, tmp_path, name):
    folder = plain_folder(tmp_path / name, 4, 1, 1)
    first = study_of(store, asked(data=str(folder)))
    assert study_of(store, asked(data=str(folder))) == first == study_of(store, asked(study=first))
    assert [s["id"] for s in list_studies(store)] == [first]


def test_a_folder_that_is_not_there_is_a_mistake(store, tmp_path):
    with pytest.raises(UserError, match="is not a folder"):
        study_of(store, asked(data=str(tmp_path / "nowhere")))


def test_rows_of_marks_stay_where_the_experiment_is_stopped(store, tmp_path, monkeypatch, capsys):
    study = study_of(store, asked(data=str(plain_folder(tmp_path / "plain", 4, 1, 1))))
    row = {"label": "3 marks", "seed": 0, "roi": True, **dict.fromkeys(MEASURES, 0.5), "cases": [0.5], "whose": [0]}
    asked_of = []

    def rows(*args, done=(), **options):
        asked_of.append(set(done))
        yield row | {"seed": len(done)}
        raise KeyboardInterrupt

    monkeypatch.setattr("tests.benches.experiments.marks.run_marks", rows)
    out = tmp_path / "rows.json"
    verb = ["experiment", "marks", "--study", study, "--home", str(store.home.path), "--arms", "1", "--out", str(out)]
    assert main(verb) == 1
    assert json.loads(out.read_text())["rows"] == [row]
    assert main([*verb, "--go-on"]) == 1
    assert asked_of == [set(), {("3 marks", 0)}]
    assert [row["seed"] for row in json.loads(out.read_text())["rows"]] == [0, 1]


@pytest.mark.parametrize("there, said", [(None, "--out names"), ({"study": "another", "rows": []}, "another")])
def test_going_on_with_what_is_not_there_is_a_mistake(store, tmp_path, capsys, there, said):
    study = study_of(store, asked(data=str(plain_folder(tmp_path / "plain", 4, 1, 1))))
    out = tmp_path / "rows.json"
    verb = ["experiment", "marks", "--study", study, "--home", str(store.home.path), "--go-on"]
    if there:
        out.write_text(json.dumps(there))
        verb += ["--out", str(out)]
    assert main(verb) == 2
    assert said in capsys.readouterr().err
