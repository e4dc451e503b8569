"""The short form of the bench of the first minute: that its moments come, in their order."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.benches import opening


@pytest.mark.longest
def test_the_moments_come_in_their_order(tmp_path, monkeypatch):
    monkeypatch.setenv("PMSACL_PICTURES", str(tmp_path))
    with ThreadPoolExecutor(1) as thread:  # the main one may have a browser's loop already
        found = thread.submit(opening.first_minute, quick=True).result()
    assert 0 < found["answer"] <= found["page"] and "card" not in found
    assert found["ratio"] == round(found["page"] / 60, 2)
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
