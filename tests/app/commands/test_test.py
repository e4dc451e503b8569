"""What `launch.py test` runs, and what it says when something does not pass."""

import json

import pytest

from app.commands import development, main


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
    assert ("not long" in ran[-1][0]) is (tier == "default")


@pytest.mark.parametrize(("paths", "cores", "two"), [([], 2, True), (["tests/app"], 8, True), ([], 1, False)])
def test_two_processes_where_there_are_two_cores(paths, cores, two):
    assert ("-n" in development.pytest(paths, cores=cores)) is two
    assert "-n" not in development.pytest(["tests/test_layers.py::test_x"], cores=cores)
