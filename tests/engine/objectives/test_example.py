"""The script that shows PMSACL on one page runs as it stands."""

import runpy
from pathlib import Path

import cv2
import pytest

from tests.engine._images import normals

SCRIPT = Path(__file__).parents[3] / "assets" / "examples" / "pmsacl.py"


@pytest.mark.long
def test_example_trains_on_a_folder(tmp_path, capsys):
    for i, image in enumerate(normals(10, 96)):
        cv2.imwrite(str(tmp_path / f"{i}.png"), image)
    runpy.run_path(str(SCRIPT))["main"](str(tmp_path), 2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["step 1", "step 2", "1 - p(A_0) of the first images"]
