"""What the experiment of outlines holds out, and how its lines are put down."""

import numpy as np

from core.studio.ingest.studies import load_arrays
from tests.benches.experiments.contour import _held_out
from tests.benches.experiments.report import markdown, summarise


def test_each_seed_holds_other_normals_out(store, tiny_study):
    arrays = load_arrays(store, tiny_study, 32)
    normal = arrays.index("train", "holdout", label="normal")
    drawn = [_held_out(store, tiny_study, arrays, seed)[:2] for seed in (0, 1, 0)]
    for kept, held in drawn:
        assert len(held) == round(len(normal) / 4) and np.array_equal(np.sort(np.r_[kept, held]), normal)
    assert np.array_equal(drawn[0][1], drawn[2][1]) and not np.array_equal(drawn[0][1], drawn[1][1])


def test_the_table_sets_the_rule_beside_one_level():
    row = {"label": "Blend", "roi": True, "seconds": 1.0, "dice": 0.4, "dice_one_level": 0.3, "outlined": 0.2}
    table = markdown(summarise([row | {"seed": 0}, row | {"seed": 1, "dice": 0.6}]))
    assert "Dice, one level" in table and "0.500 ± 0.141" in table and "0.300" in table and "AUROC" not in table
