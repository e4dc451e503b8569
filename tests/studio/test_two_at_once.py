"""What is written whole or absent, written by threads and by processes at once: each place in the code that does so."""

from __future__ import annotations

import ast
import hashlib
import multiprocessing
import re
import shutil
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from app.access.sessions import read_key
from core.engine import files
from core.engine.backbones import embed
from core.studio.bundle.pack import export_bundle
from core.studio.clusters import library, projected
from core.studio.clusters.config import MapConfig, PointsConfig
from core.studio.clusters.points import made_points
from core.studio.db import opening
from core.studio.db.home import Home
from core.studio.incoming import dicom_node
from core.studio.ingest import cache, studies
from core.studio.ingest.masks import reference_masks
from core.studio.jobs.steps import Work, load_step
from core.studio.runs import explained, pooled, screened
from core.studio.runs import records as runs
from core.studio.training import first_weights
from tests.conftest import picture, plain_folder, write

ROOT = Path(__file__).resolve().parents[2]
SIZE, STUDY = 16, "s"
THREADS, PROCESSES = 6, 2
WRITERS = {"replacing", "built", "locked", "copy", "built_array"}  # of core/engine/files.py and core/studio/db/seals.py
MAPPED = MapConfig(method="pca", points=PointsConfig(train=6, holdout=2, mixed=2, test_normal=2, abnormal=2))
Result = np.ndarray | bytes | str | int


class User:
    """One place that writes. `work` is done by several at once and gives all the same; `undo` takes it back."""

    places: tuple[str, ...] = ()
    heavy = False  # takes too long for a thousand rounds

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = opening.open(Home(folder / "home"))
        self.home = self.store.home

    def undo(self, number: int) -> None:
        raise NotImplementedError

    def work(self, number: int) -> Result:
        raise NotImplementedError

    def check(self) -> None:
        """Asserts what holds after a round."""


class Masks(User):
    places = ("core/studio/ingest/cache.py masks_of", "core/studio/db/seals.py built_array")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cases = self.store.query('SELECT * FROM cases WHERE study = ? ORDER BY "row"', [STUDY])
        cache.load_arrays(self.store, STUDY, SIZE)
        self.set = next((self.home.cache / STUDY).glob(f"{SIZE}-*"))

    def undo(self, number: int) -> None:
        for file in self.set.glob("masks-*"):
            file.unlink()

    def work(self, number: int) -> Result:
        return cache.masks_of(self.store, self.set, SIZE, self.cases, reference_masks(self.store, STUDY))


class MasksThatChange(Masks):
    """Two sets of masks in turn: what one makes, the other clears away."""

    def work(self, number: int) -> Result:
        for truth in (reference_masks(self.store, STUDY), {}):
            found = cache.masks_of(self.store, self.set, SIZE, self.cases, truth)
            assert found.any() == bool(truth) and found.shape == (len(self.cases), SIZE, SIZE)
        return found


class Arrays(User):
    places = ("core/studio/ingest/cache.py _loaded", "core/studio/ingest/cache.py _build")

    def undo(self, number: int) -> None:
        shutil.rmtree(self.home.cache / STUDY, ignore_errors=True)

    def work(self, number: int) -> Result:
        arrays = cache.load_arrays(self.store, STUDY, SIZE)
        assert np.asarray(arrays.images).any((1, 2, 3)).all(), "an image is black"
        return np.concatenate([np.asarray(a).ravel() for a in (arrays.images, arrays.roi, arrays.masks)])


class ArraysThatGrow(Arrays):
    """Cases come in while the arrays are asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.extra = write(folder / "extra.png", picture(77)[0])

    def undo(self, number: int) -> None:
        with self.store.write() as db:
            db.execute("DELETE FROM cases WHERE path = ?", [str(self.extra)])
        if number % 2:
            shutil.rmtree(self.home.cache / STUDY, ignore_errors=True)

    def work(self, number: int) -> Result:
        cache.load_arrays(self.store, STUDY, SIZE)
        studies.add_cases(self.store, STUDY, [self.extra])
        return super().work(number)


class Added(User):
    """An image is added by everybody at once: one case, and the others name it. Copies lie there from a killed add."""

    places = ("core/studio/ingest/copies.py copying", "core/studio/ingest/copies.py add")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.image = write(folder / "dropped.png", picture(78)[0])

    def undo(self, number: int) -> None:
        with self.store.write() as db:
            db.execute("DELETE FROM cases WHERE path LIKE '%/added/%'")

    def work(self, number: int) -> Result:
        report = studies.add_cases(self.store, STUDY, [self.image], copy=True)
        assert report.accepted + len(report.rejected) == 1
        return 0

    def check(self) -> None:
        added = self.store.query("SELECT path FROM cases WHERE path LIKE '%/added/%'")
        assert len(added) == 1 and Path(added[0]["path"]).read_bytes() == self.image.read_bytes()


class Screened(User):
    places = ("core/studio/runs/screened.py __call__",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        screened.schema.__globals__["detector_digest"] = lambda model: "digest"
        self.scorer = object.__new__(screened.Scorer)
        self.scorer.out, self.scorer.schema = folder, screened.schema(folder)
        rows = [{"file": str(i), "sha256": "0", "score": float(i)} for i in range(500)]
        self.scorer.screen = cast(Any, SimpleNamespace(files=lambda files: [dict(row) for row in rows]))
        screened.screen.packed = lambda row: row

    def undo(self, number: int) -> None:
        screened.part_of(self.folder, 0).unlink(missing_ok=True)

    def work(self, number: int) -> Result:
        import pyarrow.parquet as parquet

        assert self.scorer({"batch": 0, "files": []})["images"] == 500
        return int(parquet.read_table(screened.part_of(self.folder, 0)).num_rows)


class Nearest(User):
    places = ("core/studio/runs/explained.py _training",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.run = self.store.first("SELECT * FROM runs WHERE method = 'untrained'")
        self.arrays = cache.load_arrays(self.store, STUDY, SIZE)
        self.encoder = explained._loaded(explained._encoder_folder(self.store, self.run["id"]))

    def undo(self, number: int) -> None:
        for file in (self.home.cache / STUDY).glob("training-features-*"):
            file.unlink()

    def work(self, number: int) -> Result:
        rows = self.arrays.index("train", label="normal")
        return explained._training(self.store, self.run, self.arrays, self.encoder, rows, "cpu")


class Pooled(Nearest):
    places = ("core/studio/runs/pooled.py kept",)

    def undo(self, number: int) -> None:
        (self.home.cache / STUDY / "pooled.npz").unlink(missing_ok=True)

    def work(self, number: int) -> Result:
        with pooled.kept(self.store, STUDY):
            return embed.encode(self.encoder, self.arrays.images[:4], "backbone")


class Key(User):
    places = ("app/access/sessions.py read_key",)

    def undo(self, number: int) -> None:
        (self.folder / "session.key").write_bytes(b"cut" if number % 2 else b"")

    def work(self, number: int) -> Result:
        key = read_key(self.folder / "session.key")
        assert (self.folder / "session.key").stat().st_mode & 0o777 == 0o600
        return key


class Embedded(User):
    places: tuple[str, ...] = (
        "core/studio/clusters/step.py embed", "core/studio/clusters/points.py made_points",
        "core/studio/clusters/points.py features_of",
    )  # fmt: skip
    heavy = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.run = self.store.first("SELECT id FROM runs WHERE method = 'pmsacl'")["id"]

    def undo(self, number: int) -> None:
        shutil.rmtree(self.home.clusters, ignore_errors=True)

    def work(self, number: int) -> Result:
        key = load_step("embed")(Work(self.store, self.run, {"config": MAPPED.to_dict(), "device": "cpu"}))
        return files.mapped(library.map_folder(self.store, key) / "coords.npy")


class Projected(Embedded):
    places = ("core/studio/clusters/projected.py project",)

    def undo(self, number: int) -> None:
        shutil.rmtree(self.home.clusters / "maps", ignore_errors=True)

    def work(self, number: int) -> Result:
        key = load_step("embed")(Work(self.store, self.run, {"config": MAPPED.to_dict(), "device": "cpu"}))
        config = projected.ProjectionConfig(folder=str(self.folder / "images/test"), neighbours=2).to_dict()
        load_step("project")(
            Work(self.store, self.run, {"map": key, "placed": "abc", "config": config, "device": "cpu"})
        )
        return files.mapped(projected.folder_of(self.store, key, "abc") / "images.npy")


class Points(User):
    def undo(self, number: int) -> None:
        shutil.rmtree(self.home.clusters / "points", ignore_errors=True)

    def work(self, number: int) -> Result:
        def make(folder: Path) -> None:
            folder.mkdir()
            np.savez(
                folder / "points.npz", **dict.fromkeys(("case_id", "row", "lesions", "group", "mixed"), np.ones(9))
            )
            (folder / "about.json").write_text('{"study": "s", "size": 16, "groups": []}')

        return made_points(self.home, "abc", make).row


class Weights(User):
    """Everybody adds a file of the same name: one is taken, with its own note, and the others are told."""

    places = ("core/studio/training/first_weights.py add",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file = folder / "enc.safetensors"
        if not self.file.exists():
            files.write_tensors(self.file, {"a": __import__("torch").zeros(3)})

    def undo(self, number: int) -> None:
        shutil.rmtree(first_weights.folder_of(self.store), ignore_errors=True)

    def work(self, number: int) -> Result:
        try:
            first_weights.add(self.store, self.file, "root", licence="MIT")
        except ValueError as error:
            assert "already on the list" in str(error)
        return first_weights.noted(self.store, self.file.name)["sha256"]


class Received(User):
    places = ("core/studio/incoming/dicom_node.py place",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.data = (folder / "image.dcm").read_bytes()
        (folder / "watched").mkdir(exist_ok=True)

    def undo(self, number: int) -> None:
        for file in (self.folder / "watched").iterdir():
            file.unlink()

    def work(self, number: int) -> Result:
        dicom_node.place(self.folder / "watched", self.data)
        return next((self.folder / "watched").glob("*.dcm")).read_bytes()

    def check(self) -> None:
        assert len(list((self.folder / "watched").iterdir())) == 1


class Bundled(User):
    places = ("core/studio/bundle/pack.py export_bundle",)
    heavy = True

    def undo(self, number: int) -> None:
        (self.folder / "bundle.zip").unlink(missing_ok=True)

    def work(self, number: int) -> Result:
        import zipfile

        export_bundle(self.store, STUDY, self.folder / "bundle.zip", "root")
        with zipfile.ZipFile(self.folder / "bundle.zip") as bundle:
            return str(bundle.testzip())


USERS: dict[str, type[User]] = {
    user.__name__: user
    for user in (
        Masks, MasksThatChange, Arrays, ArraysThatGrow, Added, Screened, Nearest, Pooled, Key, Embedded, Projected,
        Points, Weights, Received, Bundled,
    )
}  # fmt: skip
# What needs no stress of its own, each with the reason.
EXCUSED = {
    "core/studio/ingest/copies.py sweep": "takes the lock of an import, which `Added` stresses",
    "core/studio/db/leftovers.py sweep": "takes the lock of an import, which `Added` stresses",
    "core/studio/programs/studio.py import_arrays": "takes the lock of an import, and writes what no one else knows of",
    "core/studio/db/backup.py backup": "tests/studio/db/test_backup.py has several made at once",
    "core/studio/db/backup.py delete_before": "tests/studio/db/test_backup.py has several made at once",
    "core/engine/training/pretrain.py keep": "one process has a run's folder (core/studio/jobs/orphans.py)",
}
# Names given without core/engine/files.py: to what nobody else knows of before it is there.
RENAMED = {
    "core/engine/files.py": "the one place",
    "app/routes/errors.py": "the log before goes to its one other name, under the lock of the log",
    "core/studio/db/backup.py": "tests/studio/db/test_backup.py has several made at once",
    "core/studio/bundle/read.py": "an unpacked bundle goes to names that are new, in one transaction",
    "core/studio/runs/exported.py": "an imported model goes to the folders of runs that have just been made",
}


def stress(user: User, rounds: int, threads: int, barrier: Any, leads: bool) -> str:
    """Rounds of `work` by so many threads at once; a digest of all that they saw."""
    seen, held = hashlib.sha256(), list[Result]()
    with ThreadPoolExecutor(threads) as pool:
        for number in range(rounds):
            if leads:
                user.undo(number)
            barrier.wait(120)
            results = [done.result() for done in [pool.submit(user.work, number) for _ in range(threads)]]
            contents = set(map(_bytes, results))
            assert len(contents) == 1, f"round {number}: {len(contents)} different results"
            for mapped in held:  # of the round before: to read what was cut since would end the process
                _bytes(mapped)
            held = results
            seen.update(contents.pop())
            barrier.wait(120)
            if leads:
                user.check()
    return seen.hexdigest()


def _bytes(result: Result) -> bytes:
    return result.tobytes() if isinstance(result, np.ndarray) else repr(result).encode()


def member(pipe: Any, barrier: Any, leads: bool) -> None:
    """A process of the crew: does what it is asked for until it is asked for nothing."""
    while (asked := pipe.recv()) is not None:
        name, folder, rounds, threads = asked
        try:
            user = USERS[name](folder)
            pipe.send((True, stress(user, rounds, threads, barrier, leads)))
            user.store.close()
        except BaseException:
            barrier.abort()
            pipe.send((False, traceback.format_exc()))


class Crew:
    """Processes that work at the same things at the same time."""

    def __init__(self, count: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.barrier = spawn.Barrier(count)
        pairs = [spawn.Pipe() for _ in range(count)]
        self.pipes = [ours for ours, _ in pairs]
        self.processes = [
            spawn.Process(target=member, args=(theirs, self.barrier, i == 0)) for i, (_, theirs) in enumerate(pairs)
        ]
        for process in self.processes:
            process.start()
        for _, theirs in pairs:
            theirs.close()

    def do(self, name: str, folder: Path, rounds: int, threads: int) -> None:
        """Asserts that all did their rounds, and saw the same."""
        for pipe in self.pipes:
            pipe.send((name, folder, rounds, threads))
        seen = set()
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            try:
                well, said = pipe.recv()
            except EOFError:
                process.join()
                raise AssertionError(f"a process died of {process.exitcode}") from None
            assert well, said
            seen.add(said)
        assert len(seen) == 1

    def end(self) -> None:
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            if process.is_alive():
                pipe.send(None)
            process.join(60)


@pytest.fixture(scope="module")
def crews():
    made = {"threads": Crew(1), "processes": Crew(PROCESSES)}
    yield made
    for crew in made.values():
        crew.end()


@pytest.fixture(scope="module")
def made_home(tmp_path_factory) -> Path:
    """A folder with a home that has a study, an encoder's run and one with a snapshot, and a DICOM image."""
    from core.studio.runs import pipeline
    from tests.conftest import ARCH
    from tests.studio.clusters.conftest import snapshots
    from tests.studio.ingest.dicoms import write_dicom

    base = tmp_path_factory.mktemp("two")
    store = opening.open(Home.at(base / "home"))
    studies.import_study(store, STUDY, plain_folder(base / "images", 8, 2, 2))
    pipeline.pretrain_run(store, pipeline.create_untrained(store, STUDY, SIZE, arch=ARCH))
    config = {"size": SIZE, "k": 1, "strong": "medmix", "medmix": {}}
    snapshots(runs.run_folder(store, runs.create_run(store, STUDY, "pretrain", "pmsacl", config)), 1)
    write_dicom(base / "image.dcm", np.arange(48 * 56, dtype=np.uint16).reshape(48, 56))
    store.close()
    return base


def at_once(crews, made_home: Path, tmp_path: Path, name: str, by: str, rounds: int) -> None:
    shutil.copytree(made_home, tmp_path / "at")
    store = opening.open(Home(tmp_path / "at/home"))
    with store.write() as db:
        db.execute("UPDATE cases SET path = replace(path, ?, ?)", [str(made_home), str(tmp_path / "at")])
    store.close()
    crews[by].do(name, tmp_path / "at", rounds, THREADS if by == "threads" else THREADS // PROCESSES)
    left = [path for path in (tmp_path / "at").rglob(f"{files.MAKING}*")]
    assert left == []


@pytest.mark.slow
@pytest.mark.parametrize("by", ["threads", "processes"])
@pytest.mark.parametrize("name", USERS)
def test_a_few_rounds(crews, made_home, tmp_path, name, by):
    at_once(crews, made_home, tmp_path, name, by, 2 if USERS[name].heavy else 6)


@pytest.mark.longest
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("by", ["threads", "processes"])
@pytest.mark.parametrize("name", USERS)
def test_a_thousand_rounds(crews, made_home, tmp_path, name, by):
    at_once(crews, made_home, tmp_path, name, by, 1000)


def calls() -> set[tuple[str, str]]:
    """Calls in the code, ("FILE FUNCTION", "owner.name(number of arguments)"); imported names have their module's."""
    found = set()
    for file in sorted([*(ROOT / "app").rglob("*.py"), *(ROOT / "core").rglob("*.py")]):
        text, where = file.read_text("utf-8"), file.relative_to(ROOT).as_posix()
        if "benches" in where or not re.search(r"files|seals|replace\(|rename\(|move\(", text):
            continue
        tree = ast.parse(text)
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
        owners = {name.name: node.module.rpartition(".")[2] for node in imports for name in node.names if node.module}
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]:
            for call in [node for node in ast.walk(function) if isinstance(node, ast.Call)]:
                if isinstance(call.func, ast.Attribute):
                    owner, name = getattr(call.func.value, "id", ""), call.func.attr
                else:
                    name = getattr(call.func, "id", "")
                    owner = owners.get(name, "")
                arguments = len(call.args) + len(call.keywords) * 10
                found.add((f"{where} {function.name}", f"{owner}.{name}({arguments})"))
    return found


def test_every_place_that_writes_whole_is_stressed():
    wanted = {f"{owner}.{name}(" for owner in ("files", "seals") for name in WRITERS}
    places = {place for place, call in calls() if call.partition("(")[0] + "(" in wanted}
    stressed = {place for user in USERS.values() for place in user.places}
    assert stressed <= places <= stressed | set(EXCUSED)


def test_nothing_else_writes_beside_and_renames():
    """`path.replace(target)` has one argument; a text's has two, a configuration's are named."""
    renaming = r"os\.replace\(2\)|shutil\.move\(2\)|.*\.(rename|replace)\(1\)"
    wrong = {place for place, call in calls() if re.fullmatch(renaming, call)}
    assert {place.split()[0] for place in wrong} <= set(RENAMED), wrong
