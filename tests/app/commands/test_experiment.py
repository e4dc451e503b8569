"""Which study an experiment is made on, and what stays of it."""

import json
from types import SimpleNamespace

import pytest

from app.commands import main
from app.commands._common import UserError
from app.commands.results import study_of
from core.studio.experiments.marks import MEASURES
from core.studio.ingest.studies import list_studies
from tests.conftest import plain_folder


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
    row = {"label": "3 marks", "seed": 0, "roi": True, **dict.fromkeys(MEASURES, 0.5), "cases": [0.5]}

    def rows(*args, **options):
        yield row
        raise KeyboardInterrupt

    monkeypatch.setattr("core.studio.experiments.marks.run_marks", rows)
    out = tmp_path / "rows.json"
    verb = ["experiment", "marks", "--study", study, "--home", str(store.home.path), "--arms", "1", "--out", str(out)]
    assert main(verb) == 1
    assert json.loads(out.read_text())["rows"] == [row]
