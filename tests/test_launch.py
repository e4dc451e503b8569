"""The door, launch.py: the environment that it makes, fills and enters."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def launch():
    spec = importlib.util.spec_from_file_location("launch", ROOT / "launch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_versions_are_compared_as_numbers(launch):
    assert launch.numbers("2.11.0+cu130") > launch.numbers("2.9.1")


def test_what_is_lacking_is_found(launch, tmp_path):
    (tmp_path / "r.txt").write_text(
        "# a comment\nnumpy>=1.26\nnumpy>=99\nno-such-package>=1\nnumpy~=1.0\n\npytest>=8 # x\n"
    )
    assert launch.lacking(str(tmp_path / "r.txt")) == ["numpy>=99", "no-such-package>=1", "numpy~=1.0"]


def test_the_interpreter_at_hand_is_used_when_it_has_everything(launch, monkeypatch, tmp_path):
    monkeypatch.delenv(launch.INSIDE, raising=False)
    monkeypatch.setattr(launch, "PYTHON", str(tmp_path / "none"))
    monkeypatch.setattr(launch, "VENV", str(tmp_path / "venv"))
    monkeypatch.setattr(launch, "lacking", lambda file: [])
    launch.prepare(["doctor"])


def test_an_environment_is_made_filled_once_and_entered(launch, monkeypatch, tmp_path):
    venv = tmp_path / "venv"
    monkeypatch.delenv(launch.INSIDE, raising=False)
    monkeypatch.setattr(launch, "VENV", str(venv))
    monkeypatch.setattr(launch, "PYTHON", str(venv / "bin" / "python"))
    monkeypatch.setattr(launch, "lacking", lambda file: ["torch>=2.11"])
    done = []

    def run(command, why):
        done.append(command[1:3])
        (venv / "bin").mkdir(parents=True, exist_ok=True)
        (venv / "bin" / "python").write_text("")

    monkeypatch.setattr(launch, "run", run)
    monkeypatch.setattr(launch, "reenter", lambda argv: done.append(argv))
    launch.prepare(["doctor"])
    assert done == [["-m", "venv"], ["-m", "pip"], ["-m", "pip"], ["doctor"]], "what is needed, then the project itself"
    del done[:]
    launch.prepare(["doctor"])
    assert done == [["doctor"]], "the second start installs nothing"
    del done[:]
    launch.prepare(["test"])
    assert done == [["-m", "pip"], ["test"]], "the tests' extras come with the tests"


def test_a_failed_installation_is_a_sentence_and_is_tried_again(launch, monkeypatch, tmp_path, capsys):
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").write_text("")
    monkeypatch.delenv(launch.INSIDE, raising=False)
    monkeypatch.setattr(launch, "VENV", str(venv))
    monkeypatch.setattr(launch, "PYTHON", str(venv / "bin" / "python"))
    monkeypatch.setattr(launch.subprocess, "call", lambda *a, **k: 1)
    monkeypatch.setattr(sys, "argv", ["launch.py", "doctor"])
    assert launch.main() == 1
    assert "check the network" in capsys.readouterr().err
    assert not list(venv.glob("studio-*"))


def test_a_browser_that_cannot_be_had_is_said(monkeypatch):
    from app.commands._common import UserError
    from tests.tools import verbs as development

    monkeypatch.setattr(development, "present", lambda: None)
    monkeypatch.setattr(development.subprocess, "run", lambda *a, **k: None)
    with pytest.raises(UserError, match="PMSACL_BROWSER") as error:
        development.find_browser(lambda text: None)
    assert error.value.status == 1


@pytest.mark.parametrize("free, warned", [(8.5e9, True), (40e9, False)])
def test_installing_says_when_the_disk_is_small(launch, monkeypatch, tmp_path, capsys, free, warned):
    monkeypatch.setattr(launch, "VENV", str(tmp_path))
    monkeypatch.setattr(launch, "run", lambda command, why: None)
    monkeypatch.setattr(launch.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(99e9, 0, free))
    launch.install(launch.requirements())
    assert ("Only 8.5 GB are free" in capsys.readouterr().err) == warned
    assert Path(launch.stamp(launch.requirements())).exists()


@pytest.mark.parametrize("text", ["database or disk is full", "attempt to write a readonly database"])
def test_a_disk_that_refuses_is_one_line(monkeypatch, capsys, tmp_path, text):
    import sqlite3

    from app import commands
    from core.studio.db import opening

    def refuse(home):
        raise sqlite3.OperationalError(text)

    monkeypatch.setattr(opening, "open", refuse)
    assert commands.main(["study", "list", "--home", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and ("disk" in said) and not (tmp_path / "errors.log").exists()


def test_a_full_disk_does_not_hide_what_broke(monkeypatch, capsys, tmp_path):
    from app import commands
    from core.studio.db import opening

    def broken(home):
        (tmp_path / "errors.log").mkdir()
        raise RuntimeError("inside")

    monkeypatch.setattr(opening, "open", broken)
    assert commands.main(["study", "list", "--home", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "RuntimeError: inside" in said and "the details could not be saved" in said
