"""The conformal threshold in a row of results: it flags few normals, and none where nothing can be promised. Maps."""

import numpy as np
from scipy.stats import binom

from core.studio.runs.readings import StoredMaps, pack_map
from core.studio.runs.results import conformal


def test_flags_at_most_the_promised_share_in_the_mean():
    rng, flagged = np.random.default_rng(0), 0
    for _ in range(200):
        flagged += conformal(rng.normal(size=80), rng.normal(size=50))["flagged"]
    assert flagged <= binom.ppf(0.999, 200 * 50, 0.05)
    assert flagged > 0


def test_too_few_held_out_normals_flag_nothing_and_say_so():
    row = conformal(np.arange(5.0), np.array([100.0, 200.0]))
    assert row["flagged"] == 0 and row["threshold"] is None
    assert row["held"] == 5 and row["needed"] == 19
    assert str(row["needed"]) in row["guarantee"]


def test_patients_are_counted_where_they_are_known():
    held = np.arange(400.0)
    row = conformal(held, np.array([500.0]), np.repeat(np.arange(10), 40))
    assert (row["held"], row["needed"], row["flagged"]) == (10, 19, 0) and "patients" in row["guarantee"]
    assert conformal(held, np.array([500.0]), np.repeat(np.arange(20), 20))["flagged"] == 1


def test_maps_of_no_image_are_an_empty_stack():
    class Kept:
        def first(self, query, values):
            return pack_map(np.full((3, 4), values[1], np.float32))

    maps = StoredMaps(Kept(), "run", np.array([5, 6]))
    assert maps[np.array([1, 0])][:, 0, 0].tolist() == [6, 5]
    assert maps[np.array([], int)].shape == (0, 3, 4), "as where no image of a block has a lesion"
