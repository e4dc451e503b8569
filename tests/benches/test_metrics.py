"""`bench metrics` finds the same figures by both ways; its times are measured, not tested."""

import numpy as np
import pytest

from tests import benches
from tests.benches import peers


@pytest.mark.slow
def test_all_at_once_and_by_blocks_agree(monkeypatch, tmp_path):
    monkeypatch.setenv("PMSACL_PEERS", str(tmp_path / "no-python"))
    monkeypatch.setattr(peers, "_process", lambda line: peers.measure(*line[-2:]))
    found = peers.metrics(quick=True)
    assert found["difference"] < 1e-4 and found["maps"] == 12
    for way in ("exact", "blocks"):
        assert 0.5 < found[way]["auroc"] < 1 and 0 < found[way]["pro"] < 1 and 0 < found[way]["dice"] < 1
        assert found[way]["peak_mib"] > 0
    assert found["ratio"] is None and "requirements-bench.txt" in found["missing"]


def test_without_anomalib_the_list_of_aims_says_what_is_missing(monkeypatch):
    listed = benches.Bench(
        lambda quick=False: {"ratio": None, "missing": "install the peers"}, benches.BENCHES["metrics"].aim
    )
    monkeypatch.setitem(benches.BENCHES, "metrics", listed)
    (row,) = benches.run_all(quick=True, only=["metrics"])["benches"]
    assert not row["met"] and "install the peers" in row["error"] and row["aim"] == 5


def test_rows_are_read_from_the_file(tmp_path):
    values = np.random.default_rng(0).random((7, 5, 5)).astype(np.float32)
    np.save(tmp_path / "x.npy", values)
    stored = peers._Stored(tmp_path / "x.npy")
    assert (len(stored), stored.shape) == (7, (7, 5, 5))
    for asked in (np.array([3, 0]), slice(2, 5)):
        assert np.array_equal(stored[asked], values[asked])


def test_a_process_that_fails_is_named():
    with pytest.raises(RuntimeError, match="blurred failed"):
        peers._process(["python", "-c", "import sys; sys.exit(3)", "blurred"])
