"""The paths through the code that CONTRIBUTING.md describes: every function named stands in the file named."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PATHS = re.findall(r"```path\n(.+?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL)
DEFINED = {
    ".py": r"^ *(?:async )?def {}\(",
    ".js": r"^(?:export )?(?:async )?function {0}\(|^export const {0} =|^  (?:async )?{0}\(.*\{{$",
}


@pytest.mark.parametrize("steps", PATHS, ids=("minibatch", "medmix", "image", "decision"))
def test_the_functions_of_a_path_are_there(steps):
    for line in steps.splitlines():
        path, _, names = line.partition(": ")
        file = ROOT / path
        text = file.read_text("utf-8")
        missing = [n for n in names.split() if not re.search(DEFINED[file.suffix].format(n), text, re.MULTILINE)]
        assert names and not missing, f"{path} has no {missing}"


def test_the_paths_that_a_newcomer_walks_are_short():
    """A minibatch at most 15 stops apart from MedMix, and MedMix itself at most 15 functions in five files."""
    assert len(PATHS[0].splitlines()) <= 15
    stops = [
        (line.partition(": ")[0], name) for line in PATHS[1].splitlines() for name in line.partition(": ")[2].split()
    ]
    assert len(stops) <= 15 and len({file for file, _ in stops}) <= 5


def test_the_function_of_each_equation_is_in_its_file():
    rows = re.findall(r"^\| (\d+) \|[^|]+\|(.+)\|$", (ROOT / "core/README.md").read_text("utf-8"), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 14)), "as printed in the paper"
    for number, where in rows:
        file = ""
        for name in re.findall(r"`([^`]+)`", where):
            if name.endswith(".py"):
                file = (ROOT / "core/engine" / name).read_text("utf-8")
            else:  # of a method its class: the method may be inherited
                assert re.search(rf"^(?:def|class) {name.split('.')[0]}\b", file, re.MULTILINE), (number, name)
