"""The verb `learn`: a job beside the old fit, then the comparison in words and figures."""

import json

import pytest

from app.commands import detectors as verb
from app.commands import main
from core.studio.jobs import worker
from core.studio.runs import learnt
from core.studio.runs import records as runs
from tests.app.routes.test_learn import mark
from tests.conftest import quick_lessons, scored_padim


@pytest.mark.slow
def test_it_learns_and_says_how_both_compare(store, tiny_study, capsys, monkeypatch):
    _, fit = scored_padim(store, tiny_study)
    argv = ["learn", fit, "--device", "cpu", "--json", "--home", str(store.home.path)]
    assert main(argv) == 2 and "no accepted mask to learn from" in capsys.readouterr().err
    sick = store.query("SELECT * FROM cases WHERE study = ? AND split = 'test' AND label = 'abnormal'", [tiny_study])
    for case in sick[:2]:
        mark(store, case)
    mark(store, sick[2], "bob")
    monkeypatch.setattr(learnt, "LearntConfig", quick_lessons)
    monkeypatch.setattr(verb, "follow", lambda args, store, job, title: worker.run_queue(store))  # in this process
    assert main([*argv, "--reader", "ann"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out.splitlines()[-1])
    assert found["base"] == fit and found["left_out"] == 2 and "Too few" in err and fit in err
    assert "pixel AUROC" in err
    assert runs.get_run(store, found["run"])["config"]["marks"]["reader"] == "ann"
