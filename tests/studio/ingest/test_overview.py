"""What the Study tab shows of a study is what a plain count says."""

from collections import Counter

import numpy as np
import pytest

from core.studio.ingest import overview, studies
from core.studio.ingest.masks import add_mask, reference_mask, reference_masks
from tests.conftest import plain_folder


@pytest.fixture
def study(store, tmp_path):
    plain_folder(tmp_path / "images", 24, 6, 8)
    studies.import_study(store, "tiny", tmp_path / "images")
    return "tiny"


def test_counts_are_those_of_each_case(store, study):
    cases = store.query("SELECT * FROM cases WHERE study = ?", [study])
    found = overview.overview(store, study)
    assert sum(sum(row.values()) for row in found["table"].values()) == len(cases) == 38
    for case in cases:
        assert found["table"][case["split"]][case["label"]] > 0
    truth = reference_masks(store, study)
    expected = Counter(case["split"] for case in cases if case["id"] in truth)
    assert truth and found["masks"] == {split: expected[split] for split in overview.SPLITS}
    sizes = Counter(f"{case['width']} x {case['height']}" for case in cases)
    assert dict(found["sizes"]) == dict(sizes.most_common(4)) and found["size_count"] == len(sizes)


def test_text_is_named_where_cases_have_it_now(store, study):
    (first, second) = store.query("SELECT id, name FROM cases WHERE study = ? LIMIT 2", [study])
    for flagged in ([first, second], [second], []):
        store.execute("UPDATE cases SET burned_in = 0")
        for case in flagged:
            store.execute("UPDATE cases SET burned_in = 1 WHERE id = ?", [case["id"]])
        assert overview.overview(store, study)["report"]["burned_in"] == sorted(case["name"] for case in flagged)


def test_a_sample_takes_as_many_of_each_part_and_the_same_for_a_seed(store, study):
    some = overview.sample(store, study, 8, seed=3)
    assert some == overview.sample(store, study, 8, seed=3) != overview.sample(store, study, 8, seed=4)
    assert Counter((c["split"], c["label"]) for c in some) == {
        ("train", "normal"): 2, ("holdout", "normal"): 2, ("test", "normal"): 2, ("test", "abnormal"): 2
    }  # fmt: skip
    alone = overview.sample(store, study, 100, split="test abnormal")
    assert len({c["id"] for c in alone}) == 8 and {c["label"] for c in alone} == {"abnormal"}
    assert overview.sample(store, study, 5, split="test unknown") == []


def test_the_truth_of_one_case_is_that_of_all(store, study):
    truth = reference_masks(store, study)
    case = min(truth)
    assert reference_mask(store, case) == truth[case]
    height, width = store.one("SELECT height, width FROM cases WHERE id = ?", [case]).values()
    add_mask(store, case, np.ones((height, width), np.uint8), "hand", "ann")
    add_mask(store, case, np.zeros((height, width), np.uint8), "run")
    assert reference_mask(store, case) == reference_masks(store, study)[case] == truth[case]
    normal = store.first("SELECT id FROM cases WHERE study = ? AND label = 'normal'", [study])["id"]
    assert reference_mask(store, normal) is None
