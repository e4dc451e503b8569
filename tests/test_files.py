"""No run of lines stands in two places, and variables are named after what they hold."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RUN = 6  # lines of code, the same to the letter
ENDINGS = (".py", ".js", ".ts", ".mjs", ".sh")
MADE = {"app/static/answers.d.ts"}  # by a program, from files that are looked at


def sources() -> dict[str, list[str]]:
    """Lines of every source file of ours, by its path."""
    files = [ROOT / "launch.py"]
    for floor in ("app", "core", "tests"):
        files += [path for path in sorted((ROOT / floor).rglob("*")) if path.suffix in ENDINGS]
    ours = [path for path in files if not {"vendor", "node_modules"} & set(path.parts)]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8").splitlines() for path in ours}


@pytest.fixture(scope="module")
def lines() -> dict[str, list[str]]:
    return sources()


def code_of(lines: list[str]) -> list[tuple[int, str]]:
    """(line number, line without indent) of what is neither blank, comment, import nor punctuation alone."""
    bare = ((number, line.strip()) for number, line in enumerate(_without_imports(lines), 1))
    passed_over = ("#", "//", "*", "/*", "import ", "from ")
    return [(n, line) for n, line in bare if any(map(str.isalnum, line)) and not line.startswith(passed_over)]


def _without_imports(lines: list[str]) -> list[str]:
    """The lines, those of a Python import in brackets empty."""
    inside, left = False, []
    for line in lines:
        inside = inside or bool(re.match(r"\s*from [\w.]+ import \($", line))
        left.append("" if inside else line)
        inside = inside and not line.rstrip().endswith(")")
    return left


def repeats(lines: dict[str, list[str]], run: int = RUN) -> dict[frozenset[str], str]:
    """The pairs of files (or the one file) that share a run, each with the first place."""
    places = defaultdict(list)
    for name, text in lines.items():
        code = code_of(text)
        for i in range(len(code) - run + 1):
            places[tuple(line for _, line in code[i : i + run])].append((name, code[i][0]))
    found: dict[frozenset[str], str] = {}
    for (name, line), *others in places.values():
        for other, there in others:
            found.setdefault(frozenset({name, other}), f"{name}:{line} ~ {other}:{there}")
    return found


def test_no_run_of_lines_stands_in_two_places(lines):
    assert repeats({name: text for name, text in lines.items() if name not in MADE}) == {}


def test_a_repeat_is_found_and_a_shorter_one_is_not():
    same = [f"x{i} = work({i})" for i in range(RUN)]
    assert repeats({"a.py": ["# why", *same], "b.py": ["", "y = 1", *same]}) == {
        frozenset({"a.py", "b.py"}): "a.py:2 ~ b.py:3"
    }
    assert repeats({"a.py": same[1:], "b.py": same[1:]}) == {}
    names = ["from a import (", *(f"    name_{i}," for i in range(RUN)), ")"]
    assert repeats({"a.py": [*names, same[0]], "b.py": [*names, same[1]]}) == {}
    assert repeats({"a.py": [*names, *same], "b.py": same}).keys() == {frozenset({"a.py", "b.py"})}
    assert repeats({"a.py": [*same, "z = 0", *same]}).keys() == {frozenset({"a.py"})}


# What came out is no name for it; fields of records and a route's parameters keep theirs.
VAGUE = {"found", "kept", "made", "seen", "part", "one", "about", "it"}


def vague(tree: ast.AST, route: bool) -> list[str]:
    """The variables and parameters of functions that are called so, each with its line."""
    names = []
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            decorated = route and getattr(function, "decorator_list", [])
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE:
                    names.append(f"{node.lineno}: {node.id}")
                elif isinstance(node, ast.arg) and node.arg in VAGUE and not decorated:
                    names.append(f"{node.lineno}: {node.arg}")
    return names


def test_variables_say_what_they_hold(lines):
    for name, text in lines.items():
        if name.endswith(".py") and name.startswith(("core/", "app/", "launch")):
            assert vague(ast.parse("\n".join(text)), name.startswith("app/routes/")) == [], name
    assert vague(ast.parse("def f(part):\n    found = [one for one in part]"), False) == [
        "1: part",
        "2: found",
        "2: one",
    ]
