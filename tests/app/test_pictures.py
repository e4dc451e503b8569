"""The pictures of README and app/README show the page as it is; `python -m tests.tools.pictures` makes them anew."""

import hashlib
import json
import re

import pytest

from app.page import TABS
from tests.tools import pictures

NOTE = json.loads(pictures.NOTE.read_text(encoding="utf-8"))
ANEW = "the page has moved on: make its pictures anew (python -m tests.tools.pictures)"


def test_pictures_are_those_that_the_script_made():
    found = {name: hashlib.sha256((pictures.ASSETS / name).read_bytes()).hexdigest() for name in NOTE["files"]}
    assert found == NOTE["files"]
    shown = "".join((pictures.ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "app/README.md"))
    named = set(re.findall(r"assets/([\w-]+\.(?:png|jpg))", shown))
    assert named - {"first_minute.jpg"} == set(NOTE["files"]), "`bench first-minute` makes that one"


@pytest.mark.parametrize("tab", TABS)
def test_what_can_be_read_on_a_picture_is_still_on_the_page(tab):
    assert NOTE["tabs"] == list(TABS.values()), ANEW
    text, before = pictures.sources()[tab], NOTE["controls"][tab]
    assert not [word for word in NOTE["words"][tab] if word not in text], ANEW
    assert sum(map(len, NOTE["words"].values())) > 60 and abs(pictures.controls()[tab] - before) <= 0.1 * before, ANEW
