"""Logs say where something broke, and name no file, for files bear the names of patients."""

from pathlib import Path

import pytest

from core.studio.db import logged


def test_a_trace_has_its_frames_and_causes_and_no_names():
    name = "-".join(["mueller", "anna"])
    with pytest.raises(RuntimeError) as raised:
        try:
            Path(f"/nowhere/{name}.png").read_bytes()
        except OSError as error:
            raise RuntimeError(f"no image at {name}.png") from error
    text = logged.trace_of(raised.value)
    assert "mueller" not in text.replace('"-".join(["mueller"', "") and "test_logged.py" in text
    assert text.index("FileNotFoundError") < text.index("which led to") < text.index("RuntimeError: (text left out")


@pytest.mark.parametrize("text", ["no 'Anna'", 'no "Anna"', "/data/x", r"C:\data\x", "Anna Mueller.dcm"])
def test_what_may_name_a_file_is_left_out(text):
    assert logged.text_of(ValueError(text)) == logged.LEFT_OUT


def test_other_texts_are_kept():
    assert logged.text_of(ZeroDivisionError("division by zero")) == "division by zero"
