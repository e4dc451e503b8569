"""The page's scripts as modules: no circle of imports, nothing imported that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

APP = Path(__file__).resolve().parents[3] / "app"
IMPORT = re.compile(
    r"""^\s*(?:import|export)\b[^;'"]*?\bfrom\s*['"](\.[^'"]+)['"]|\bimport\s*\(?\s*['"](\.[^'"]+)['"]""", re.MULTILINE
)
COMMENT = re.compile(r"/\*.*?\*/|^\s*//.*?$", re.DOTALL | re.MULTILINE)


def scripts(root: Path) -> list[Path]:
    return sorted(p.resolve() for p in root.rglob("*.js") if "vendor" not in p.parts)


def imports(file: Path) -> list[Path]:
    """The files that a script imports when it runs; types in comments do not count."""
    text = COMMENT.sub("", file.read_text(encoding="utf-8"))
    return [(file.parent / (a or b)).resolve() for a, b in IMPORT.findall(text)]


def circle(graph: dict[Path, list[Path]]) -> list[Path]:
    """Files that import each other in a circle; empty if there are none."""
    done: set[Path] = set()

    def follow(file: Path, way: list[Path]) -> list[Path]:
        if file in way:
            return way[way.index(file) :]
        if file in done:
            return []
        for other in graph.get(file, []):
            if found := follow(other, [*way, file]):
                return found
        done.add(file)
        return []

    return next((found for file in graph if (found := follow(file, []))), [])


def test_scripts_do_not_import_each_other_in_a_circle():
    graph = {file: imports(file) for file in scripts(APP)}
    assert sum(map(len, graph.values())) > 100
    assert not circle(graph)


def test_a_circle_is_found(tmp_path):
    (tmp_path / "a.js").write_text("import { b } from './b.js';\n")
    (tmp_path / "b.js").write_text("import {\n  c,\n} from './c.js';\n")
    (tmp_path / "c.js").write_text("/** @type {import('./d.js').D} */\nconst late = () => import('./a.js');\n")
    (tmp_path / "d.js").write_text("import './c.js';\n")
    graph = {file: imports(file) for file in scripts(tmp_path)}
    assert {p.name for p in circle(graph)} == {"a.js", "b.js", "c.js"}


@pytest.mark.parametrize("file", scripts(APP), ids=lambda p: p.relative_to(APP).as_posix())
def test_a_script_imports_what_is_there(file):
    assert all(other.is_file() for other in imports(file))


def test_no_script_is_left_over():
    """Each is imported by another, but for a widget's own and the two of app/page.py, which the page loads."""
    files = scripts(APP)
    loaded = {f for f in files if f.stem == f.parent.name} | {
        APP / "static" / name for name in ("studio.js", "theme.js")
    }
    assert set(files) - loaded - {other for file in files for other in imports(file)} == set()


SET = re.compile(
    r"\breview\.\w+ *(?:[-+*/|&?]{0,2}=(?![=>])|\+\+|--)|Object\.assign\((?:this\.)?review\b|\breview\.detail\.\w+ = "
)


def test_what_is_on_screen_in_review_is_changed_in_its_own_file_alone():
    room = APP / "widgets" / "review"
    strange = {
        file.relative_to(room).as_posix(): found
        for file in scripts(room)
        if (found := SET.findall(COMMENT.sub("", file.read_text(encoding="utf-8"))))
    }
    assert strange.keys() <= {"review_view.js"}, strange
    assert SET.search("this.review.last = null") and SET.search("review.step += 1") and SET.search("review.since++")
    assert not SET.search("if (review.run === run)") and not SET.search("review.view.turn = UPRIGHT")
