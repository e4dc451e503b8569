"""What is registered can be asked for: on the page's form and by the verbs, with no list kept beside the registry."""

from __future__ import annotations

import pytest

from app.commands import parser
from app.commands.training import pretrain_config
from core.engine.registry import DETECTORS, OBJECTIVES
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
