"""Seals of files: sound, cut, changed at one place, gone."""

import numpy as np
import pytest

from core.studio.db import seals


@pytest.fixture
def sealed(tmp_path):
    """A file of three and a half blocks, with its seal."""
    file = tmp_path / "values.npy"
    file.write_bytes(np.random.default_rng(0).bytes(seals.BLOCK * 7 // 2))
    seals.seal(file)
    return file


def test_a_sound_file_has_no_problem(sealed):
    assert seals.problem(sealed) is None and seals.problem(sealed, full=True) is None


@pytest.mark.parametrize("place", [0, seals.BLOCK - 1, seals.BLOCK * 2, seals.BLOCK * 7 // 2 - 1])
def test_one_changed_byte_is_found(sealed, place):
    content = bytearray(sealed.read_bytes())
    content[place] ^= 1
    sealed.write_bytes(content)
    assert f"from byte {place // seals.BLOCK * seals.BLOCK} on" in (seals.problem(sealed) or "")


def test_a_cut_file_and_one_that_is_gone_are_named(sealed):
    sealed.write_bytes(sealed.read_bytes()[:-1])
    assert "bytes, but" in (seals.problem(sealed) or "")
    sealed.unlink()
    assert seals.problem(sealed) is not None


def test_a_seal_that_cannot_be_read_is_a_problem(sealed):
    seals.seal_of(sealed).write_text("{")
    assert "seal" in (seals.problem(sealed) or "")


def test_large_files_are_sampled_when_opened_and_read_whole_when_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(seals, "BLOCK", 16)
    file = tmp_path / "large"
    file.write_bytes(bytes(16 * 400))
    seals.seal(file)
    read = []
    real = seals._digest
    monkeypatch.setattr(seals, "_digest", lambda block: read.append(block) or real(block))
    assert seals.problem(file) is None and len(read) == seals.SAMPLE
    assert seals.problem(file, full=True) is None and len(read) == seals.SAMPLE + 400
