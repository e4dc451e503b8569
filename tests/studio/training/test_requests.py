"""What is registered can be asked for on the page and by verbs, without a list beside the registry; dry runs."""

import pytest

from app.commands import parser
from app.commands.training import pretrain_config
from core.engine.objectives.config import PretrainConfig
from core.engine.registry import DETECTORS, OBJECTIVES
from core.studio.training import dryrun
from core.studio.training.requests import checked, training_forms


def test_the_page_offers_every_objective_and_detector(store):
    forms = training_forms(store)
    assert set(forms["objectives"]) == set(OBJECTIVES.names())
    assert set(forms["detectors"]) == set(DETECTORS.names())
    assert all(one["title"] for one in forms["objectives"].values())


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_the_verb_and_the_page_take_every_objective(store, name):
    args = parser().parse_args(["pretrain", "study", "--objective", name, "--size", "64"])
    assert checked(pretrain_config(args, store).to_dict(), store).objective == name


def test_nothing_is_started_that_memory_does_not_hold(store, monkeypatch):
    started = []
    monkeypatch.setattr(dryrun.subprocess, "run", lambda *a, **k: started.append(a))
    monkeypatch.setattr(dryrun, "free_host_memory", lambda: dryrun.LEAST)
    found = dryrun.dry_run(store.home.path, "s", PretrainConfig().to_dict())
    assert not found["fits"] and "GB are free" in found["message"] and not started
    assert dryrun.least_memory(PretrainConfig(batch=64)) > dryrun.least_memory(PretrainConfig(batch=32)) > dryrun.LEAST
