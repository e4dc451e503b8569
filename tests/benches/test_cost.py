"""What many devices would take, worked out from rates: the sums hold, whatever this machine's rates are."""

import pytest

from core.engine.objectives.presets import PRETRAIN_PRESETS
from tests.benches import cost


@pytest.mark.long
def test_hours_follow_from_the_rates():
    found = cost.cost(quick=True)
    step, rates = found["step"], found["rates"]
    assert list(found["devices"]) == list(step["processes"]) == ["1", "8"]
    for name, row in found["devices"].items():
        count, parts = int(name), step["processes"][name]
        assert parts["step"] == pytest.approx(sum(parts[k] for k in ("network", "read", "views", "loss")))
        steps = 1e6 / (step["images_per_process"] * count)
        assert row["epoch_hours"] == pytest.approx(steps * parts["step"] / 3600)
        assert row["training_hours"] == pytest.approx(PRETRAIN_PRESETS["paper"].epochs * row["epoch_hours"])
        shared = {**rates, "score": rates["score"] * count}
        assert row["first"] == min(shared, key=shared.get)
        assert row["screening_hours"] == pytest.approx(1e7 / min(shared.values()) / 3600)
    assert found["ratio"] >= 1 - 1e-9  # no stage gets slower a device than on one
    assert found["disk_gib"]["training"] == pytest.approx(1e6 * 4 * step["size"] ** 2 / 2**30)
    assert found["disk_gib"]["readings"] > 0
