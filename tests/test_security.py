"""SECURITY.md: each promise names a test that keeps it, and each test that is named is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def promises() -> list[str]:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    part = text.split("## What is promised")[1].split("\n## ")[0]
    return [" ".join(line.split()) for line in part.split("\n- ")[1:]]


def test_each_promise_names_the_test_that_keeps_it():
    assert len(promises()) > 10
    assert not [promise[:80] for promise in promises() if not NAMED.search(promise)]


@pytest.mark.slow
def test_each_test_that_is_named_is_there():
    missing = []
    texts = [(ROOT / name).read_text("utf-8") for name in ("SECURITY.md", "app/README.md")]
    for file, name in NAMED.findall("".join(texts)):
        path = ROOT / file
        if not path.is_file() or (name and not re.search(rf"^(@\w.*\n)*def {name}\(", path.read_text("utf-8"), re.M)):
            missing.append(f"{file}::{name}")
    assert not missing
