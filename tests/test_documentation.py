"""The documentation for programs is built of the docstrings, its links lead somewhere, and its notebooks run."""

import doctest
import inspect
import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "assets/notebooks").glob("*.ipynb"))


@pytest.mark.longest
def test_the_documentation_is_built_and_each_public_name_stands_in_it(tmp_path):
    import pmsacl_studio

    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "assets/docs/mkdocs.yml")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run([*line, "-d", str(tmp_path)], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "reference/index.html").read_text(encoding="utf-8")
    for name in pmsacl_studio.__all__:
        assert f'id="pmsacl_studio.{name}"' in page, name
    for file in tmp_path.rglob("*.html"):  # nothing is asked of another host when a page is opened
        asked = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?://', file.read_text(encoding="utf-8"))
        assert not asked, file


@pytest.mark.longest
@pytest.mark.timeout(600)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_each_notebook_runs(notebook, tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "core/api"), str(ROOT)]))
    monkeypatch.setenv("MPLBACKEND", "agg")
    book = nbformat.read(notebook, as_version=4)
    code = "\n".join(cell.source for cell in book.cells if cell.cell_type == "code")
    assert not re.search(r"^\s*(from|import) (core|app)\b", code, re.M)  # programs import pmsacl_studio alone
    NotebookClient(book, timeout=500, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_each_public_name_says_what_it_does_and_what_its_parts_do():
    """`help()` of each, and of what it offers: a sentence of its own."""
    import pmsacl_studio

    for name in pmsacl_studio.__all__:
        public = getattr(pmsacl_studio, name)
        members = vars(public).items() if inspect.isclass(public) else ()
        functions = [(f"{name}.{key}", one) for key, one in members if inspect.isfunction(one) and key[0] != "_"]
        for title, one in [(name, public), *functions]:
            said = pydoc.plain(pydoc.render_doc(one))
            first = (inspect.getdoc(one) or "").split("\n")[0]
            assert len(first.split()) >= 3 and first in said, title


@pytest.mark.longest
def test_each_public_name_has_an_example_that_runs(tmp_path, monkeypatch):
    """In one folder, one after the other: the model that `Studio`'s example leaves is what `Screen`'s reads."""
    import pmsacl_studio

    monkeypatch.chdir(tmp_path)
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for name in sorted(pmsacl_studio.__all__, key="Screen".__eq__):  # that one last
        [example] = finder.find(getattr(pmsacl_studio, name), name, globs={})
        assert example.examples, f"{name} has no example"
        assert runner.run(example).failed == 0, name


def test_types_travel_with_the_package():
    import pmsacl_studio

    for name in pmsacl_studio.__all__:
        public = getattr(pmsacl_studio, name)
        own = vars(public).values() if inspect.isclass(public) else [public]
        for function in (f for f in own if inspect.isfunction(f) and f.__name__[0] != "_" or f is public.__init__):
            if inspect.isfunction(function):
                hints = set(function.__annotations__) | {"self", "cls"}
                missing = set(inspect.signature(function).parameters) - hints
                assert not missing and ("return" in hints or function.__name__ == "__init__"), (name, function.__name__)
    assert (ROOT / "core/py.typed").exists() and (ROOT / "core/api/pmsacl_studio/py.typed").exists()


def test_there_are_notebooks():
    assert [file.stem for file in NOTEBOOKS] == ["review_and_learn", "train_and_compare", "tune_medmix"]
