"""Imports only go down; the ground runs where the upper floors' libraries are not installed."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FORBIDDEN = {
    "core/engine": ("core.studio", "app", "gradio", "sqlite_utils", "umap", "sqlite3"),
    "core/studio": ("app",),
}

ALONE = """
import importlib, pkgutil, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("gradio", "sqlite_utils", "umap", "sqlite3", "pydicom", "highdicom", "fastapi"):
            raise ImportError(name + " is not installed here")
sys.meta_path.insert(0, Absent())
import core.engine
names = [m.name for m in pkgutil.walk_packages(core.engine.__path__, "core.engine.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


@pytest.mark.slow
def test_every_engine_module_imports_without_the_upper_floors():
    done = subprocess.run([sys.executable, "-c", ALONE], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


def imports(file: Path):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.slow
@pytest.mark.parametrize("floor", FORBIDDEN)
def test_imports_only_go_down(floor):
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in (ROOT / floor).rglob("*.py")
        for name in imports(file)
        if any(name == no or name.startswith(no + ".") for no in FORBIDDEN[floor])
    ]
    assert not wrong


def test_there_is_no_sql_in_the_app():
    wrong = []
    for file in (ROOT / "app").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value.lstrip()
                if text.startswith(("SELECT ", "INSERT ", "UPDATE ", "DELETE FROM ", "WITH ")):
                    wrong.append(f"{file.relative_to(ROOT)}:{node.lineno}: {text[:40]}")
    assert not wrong


@pytest.mark.slow
def test_programs_kept_as_text_import_what_is_there():
    """Benches and tests start processes with programs in strings, which no linter follows."""
    wrong = []
    for file in (f for part in ("app", "core", "tests") for f in (ROOT / part).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for path, names in re.findall(r"\bfrom ((?:core|app)(?:\.\w+)*) import (\w+)", node.value):
                    place = ROOT.joinpath(*path.split("."))
                    if not place.with_suffix(".py").exists() and not (place / f"{names}.py").exists():
                        package = place / "__init__.py"
                        if not package.exists() or names not in package.read_text():
                            wrong.append(f"{file.relative_to(ROOT)}:{node.lineno}: {path}.{names}")
    assert not wrong


@pytest.mark.parametrize("floor", ["app", "core/studio", "core/engine"])
def test_the_readmes_tree_names_every_folder(floor):
    tree = (ROOT / "README.md").read_text("utf-8").partition(f"\n{floor}/ ")[2].partition("\n```")[0]
    named = {word.rstrip("/") for word in re.split(r"\s+", re.split(r"\n\S", tree)[0]) if word.endswith("/")}
    folders = {place.name for place in (ROOT / floor).iterdir() if (place / "__init__.py").exists()}
    assert folders <= named | {"static"}


# Each line imports from lines above it alone, and never from its neighbours in the line.
ROOMS = (
    ("db",),
    ("jobs", "ingest", "forms"),
    ("runs",),
    ("review", "medmix"),
    ("incoming", "training", "clusters", "trials"),
    ("bundle",),
    ("demo", "doctor"),
    ("report", "programs"),
)


def test_rooms_of_the_middle_floor_import_no_room_above_or_beside_them():
    level = {room: i for i, rooms in enumerate(ROOMS) for room in rooms}
    folders = {place.name for place in (ROOT / "core/studio").iterdir() if (place / "__init__.py").exists()}
    assert folders == set(level)
    wrong = []
    for file in (ROOT / "core/studio").rglob("*.py"):
        room = file.relative_to(ROOT / "core/studio").parts[0]
        for name in imports(file):
            path = name.split(".")
            other = path[2] if path[:2] == ["core", "studio"] and len(path) > 2 else room
            if other != room and level[other] >= level[room]:
                wrong.append(f"{file.relative_to(ROOT)} imports {name}")
    assert not wrong


def test_no_rooms_of_the_engine_import_each_other():
    """Neither two nor more of them in a circle: one of them could always be read first."""
    below: dict[str, set[str]] = {}
    for file in (ROOT / "core/engine").rglob("*.py"):
        room = file.relative_to(ROOT / "core/engine").parts[0].removesuffix(".py")
        taken = {name.split(".")[2] for name in imports(file) if name.startswith("core.engine.")}
        below.setdefault(room, set()).update(taken - {room})
    while free := {room for room, taken in below.items() if not taken & set(below)}:
        below = {room: taken for room, taken in below.items() if room not in free}
    assert not below, f"a circle runs through some of {sorted(below)}"


def test_no_modules_import_each_other():
    """Deferred imports and those for types alone count, too: what stands in a circle cannot be read alone."""
    files = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for floor in ("app", "core")
        for file in (ROOT / floor).rglob("*.py")
    }
    below: dict[str, set[str]] = {}
    for name, file in files.items():
        taken = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                taken |= {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                taken |= {f"{node.module}.{one.name}" for one in node.names} & set(files) or {node.module}
        below[name] = taken & set(files) - {name}
    while free := {name for name, taken in below.items() if not taken & set(below)}:
        below = {name: taken for name, taken in below.items() if name not in free}
    above = set(below)
    while outer := {name for name in above if not any(name in below[other] for other in above)}:
        above -= outer
    assert not above, f"a circle runs through {sorted(above)}"
