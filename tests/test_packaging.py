"""`pip install .`: what it declares, and what it carries."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import tomllib

ROOT = Path(__file__).resolve().parents[1]
SOURCE = [ROOT / "app", ROOT / "core"]
OWNERS = {  # module: distribution, where the names differ
    "PIL": "pillow", "argon2": "argon2-cffi", "cv2": "opencv-python", "gdcm": "python-gdcm",
    "sklearn": "scikit-learn", "umap": "umap-learn", "yaml": "pyyaml",
}  # fmt: skip
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("optional-dependencies", {})
BUILD = "import setuptools.build_meta as b, sys; print(b.build_wheel(sys.argv[1]))"


def normal(name: str) -> str:
    """A distribution's name as registries compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> dict[str, str]:
    """name: its floor, of requirements.txt."""
    lines = [line.split("#")[0].strip() for line in (ROOT / "requirements.txt").read_text().splitlines()]
    found = [re.fullmatch(r"([\w.-]+)(>=|~=)([\d.]+)", line) for line in lines if line]
    assert all(found), "a line of requirements.txt is no name with a floor"
    return {normal(m[1]): m[3] for m in found if m}


def optional() -> dict[str, str]:
    """name: floor, of the extras in pyproject.toml; whoever imports one says how to get it where it is missing."""
    lines = [line.split(">=") for lines in EXTRAS.values() for line in lines]
    return {normal(name): floor for name, floor in lines}


def numbers(version: str) -> list[int]:
    """The numbers of a version, without zeros at its end: 3.0 is no less than 3."""
    found = [int(n) for n in re.findall(r"\d+", version)]
    while found and found[-1] == 0:
        found.pop()
    return found


def below_a_fix(floors: dict[str, str]) -> list[str]:
    """Ids of the advisories of which a floor lets an affected version in. The list is renewed by hand at a release."""
    known = json.loads((ROOT / "tests/data/advisories.json").read_text())["advisories"]
    return [a["id"] for a in known if a["package"] in floors and numbers(floors[a["package"]]) < numbers(a["fixed"])]


def third_party() -> dict[str, set[str]]:
    """Top-level module: the files of app/ and core/ that import it."""
    known = {*sys.stdlib_module_names, "app", "core", "pmsacl_studio"}
    found: dict[str, set[str]] = {}
    for folder in SOURCE:
        for file in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    names = [name.name for name in node.names]
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    names = [node.module or ""]
                else:
                    continue
                for top in {name.split(".")[0] for name in names} - known:
                    found.setdefault(top, set()).add(file.relative_to(ROOT).as_posix())
    return found


def test_every_import_is_declared_with_a_floor():
    names, missing = {*declared(), *optional()}, {}
    for module, files in third_party().items():
        if normal(OWNERS.get(module, module)) not in names:
            missing[module] = sorted(files)
    assert not missing


def test_installed_versions_reach_the_floors():
    for name, floor in declared().items():
        have = [int(n) for n in re.findall(r"\d+", importlib.metadata.version(name).split("+")[0])]
        assert have >= [int(n) for n in floor.split(".")], name


def test_no_floor_lets_a_version_in_that_has_an_advisory():
    floors = {**declared(), **optional()}
    assert below_a_fix(floors) == []
    known = json.loads((ROOT / "tests/data/advisories.json").read_text())["advisories"]
    assert {a["package"] for a in known} <= set(floors), "a line of a package that is no longer declared"
    before = {"pydicom": "3.0", "pillow": "12.1", "pyarrow": "17"}  # as floors were
    assert {"CVE-2026-32711", "CVE-2026-42308", "CVE-2026-25087"} <= set(below_a_fix(before))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The wheel, built from a copy: building leaves folders beside the source."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for folder in SOURCE:
        shutil.copytree(folder, source / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "requirements.txt", "README.md", "LICENSE", "launch.py"):
        shutil.copy(ROOT / name, source)
    done = subprocess.run([sys.executable, "-c", BUILD, str(out)], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_the_wheel_carries_what_app_and_core_need_and_nothing_else(wheel):
    ours = {name for name in wheel.namelist() if ".dist-info/" not in name}
    files = [file for folder in SOURCE for file in folder.rglob("*") if file.is_file()]
    wanted = {f.relative_to(ROOT).as_posix() for f in files if "__pycache__" not in f.parts and f.suffix != ".md"}
    assert ours == {name.removeprefix("core/api/") for name in wanted}


def test_the_wheel_names_its_requirements_and_its_command(wheel):
    folder = next(name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name)
    about = wheel.read(f"{folder}/METADATA").decode()
    lines = re.findall(r"^Requires-Dist: (.*)$", about, re.M)
    wanted = [re.split("[>~]", line)[0] for line in lines if "extra ==" not in line]
    assert {normal(re.split("[>~]", line)[0]) for line in lines if "extra ==" in line} == set(optional())
    assert {normal(name) for name in wanted} == set(declared())
    assert "pmsacl-studio = app.commands:entry" in wheel.read(f"{folder}/entry_points.txt").decode()


def test_the_command_names_itself_in_its_help(monkeypatch, capsys):
    from app import commands

    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/pmsacl-studio", "--help"])
    with pytest.raises(SystemExit):
        commands.entry()
    assert capsys.readouterr().out.startswith("usage: pmsacl-studio ")


def test_the_lock_of_the_page_s_tools_names_no_registry():
    """Written by `npm install --omit-lockfile-registry-resolved`."""
    assert '"resolved"' not in (ROOT / "package-lock.json").read_text(encoding="utf-8")
