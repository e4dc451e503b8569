"""Fixtures for every floor: a home of its own for each test, a tiny study, the real images."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import cv2
import numpy as np
import pytest

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[1]
# A ResNet of 0.4 million weights with a map at each stride: a step takes a seventh of ResNet-18's.
ARCH = "test_resnet"
LONG = 6  # seconds of one test, with its fixtures: twice what marks it, since machines differ
TIERS = ("longest", "long", "browser", "slow")  # markers (pyproject.toml), those that take longest first


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the browser's tests, and has the files of the long tests begin first: no process waits for one at the end.

    The order of the files is the same in every process: by what their tests are, then by name.
    """
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
    weights: dict[Path, int] = {}
    for item in items:
        tier = next((i for i, name in enumerate(TIERS) if item.get_closest_marker(name)), len(TIERS))
        weights[item.path] = min(tier, weights.get(item.path, tier))
    items.sort(key=lambda item: weights[item.path])


def pytest_terminal_summary(terminalreporter) -> None:
    """Names what took long without being marked so: a plain run has a budget (tests/tools/verbs.py)."""
    took: dict[str, float] = {}
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports(""):
        if getattr(report, "when", None) in ("setup", "call") and not {"long", "longest"} & set(report.keywords):
            took[report.nodeid] = took.get(report.nodeid, 0) + report.duration
    slowest = sorted(((seconds, name) for name, seconds in took.items() if seconds >= LONG), reverse=True)
    if slowest:
        terminalreporter.section(f"{LONG} s or more, and not marked long")
        for seconds, name in slowest:
            terminalreporter.line(f"{seconds:5.1f} s {name}")


@pytest.fixture(autouse=True)
def _no_users_home(tmp_path, monkeypatch):
    """Nothing that a test starts may touch the home of whoever runs it."""
    monkeypatch.setenv("PMSACL_HOME", str(tmp_path / "default-home"))


@pytest.fixture
def no_worker(monkeypatch):
    """Jobs are queued and no worker is started by itself."""
    from core.studio.jobs import queue

    monkeypatch.setattr(queue, "ensure_worker", lambda store: [])


@pytest.fixture
def home(tmp_path):
    from core.studio.db.home import Home

    return Home.at(tmp_path / "home")


@pytest.fixture
def store(home):
    from core.studio.db import opening

    opened = opening.open(home)
    yield opened
    opened.close()


def shared(kind: str, name: str, variable: str) -> Path:
    """Finds a folder or file of what is shared beside the repository; skips without it, and fails on CI.

    variable: of the environment, names another place of `kind`.
    """
    found = Path(os.environ.get(variable, ROOT.parent / "shared" / kind)) / name
    if not found.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"on CI the shared {kind} must be there: {found} is not")
        pytest.skip(f"there is no {found}; set {variable}")
    return found


@pytest.fixture(scope="session")
def real() -> Callable[[str], Path]:
    """real("hyperkvasir") -> its folder. Skips if there are no real images; on CI that is a failure."""
    return lambda name: shared("data", name, "PMSACL_DATA")


@pytest.fixture(scope="session")
def cases() -> Callable[[str], ModuleType]:
    """cases("dicom_headers") -> the shared module that writes such files. Skips as `real` does."""

    def load(name: str) -> ModuleType:
        folder = str(shared("cases", f"{name}.py", "PMSACL_CASES").parent)
        if folder not in sys.path:  # its modules import each other
            sys.path.append(folder)
        return importlib.import_module(name)

    return load


def picture(seed: int, size: tuple[int, int] = (64, 48), blob: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """A smooth coloured picture (H, W, 3) of its own, and its mask (H, W); with `blob`, a bright round lesion in it."""
    rng = np.random.default_rng(seed)
    width, height = size
    base = rng.integers(60, 190, (6, 8, 3)).astype(np.uint8)
    image = cv2.resize(base, (width, height), interpolation=cv2.INTER_CUBIC).astype(np.int16)
    image = np.clip(image + rng.integers(-9, 10, image.shape), 0, 255).astype(np.uint8)
    mask = np.zeros((height, width), np.uint8)
    if blob:
        centre = int(rng.integers(16, width - 16)), int(rng.integers(16, height - 16))
        cv2.circle(mask, centre, 9, 1, -1)
        image[mask > 0] = (250, 240, 60)
    return image, mask


def write(path: Path, image: np.ndarray) -> Path:
    """RGB or grey to a file of the suffix's kind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = image[..., ::-1] if image.ndim == 3 else image
    assert cv2.imwrite(str(path), data)
    return path


def plain_folder(root: Path, train: int = 24, normal: int = 6, abnormal: int = 6) -> Path:
    """A folder in the plain layout."""
    for i in range(train):
        write(root / "train/normal" / f"n{i:03d}.png", picture(i)[0])
    for i in range(normal):
        write(root / "test/normal" / f"t{i:03d}.png", picture(1000 + i)[0])
    for i in range(abnormal):
        image, mask = picture(2000 + i, blob=True)
        write(root / "test/abnormal" / f"a{i:03d}.png", image)
        write(root / "test/mask" / f"a{i:03d}.png", mask * 255)
    return root


@pytest.fixture
def tiny_folder(tmp_path) -> Path:
    return plain_folder(tmp_path / "images")


@pytest.fixture
def tiny_study(store, tiny_folder) -> str:
    """Id of a study of 24 training normals (6 of them held out), 6 normal and 6 abnormal test images."""
    from core.studio.ingest.studies import import_study

    return import_study(store, "tiny", tiny_folder).study


def few(monkeypatch, name: str, most: int) -> None:
    """Sets a limit of core/studio/db/limits.py for the rest of a test."""
    from core.studio.db.limits import LIMITS

    monkeypatch.setitem(LIMITS, name, dataclasses.replace(LIMITS[name], most=most))


def at_once(act: Callable[[int], T], threads: int = 30) -> list[T]:
    """What `act(0)`, `act(1)`, ... give, each called by a thread of its own, all at the same moment."""
    gate = threading.Barrier(threads)

    def one(i: int) -> T:
        gate.wait(60)
        return act(i)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(threads)))


def wait(condition: Callable[[], object], seconds: float = 120, what: str = "it"):
    """What `condition` gives as soon as that is true; AssertionError if that, named `what`, does not come about."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come about")


def awaited(coroutine: Coroutine[object, object, T]) -> T:
    """What a coroutine gives, from a thread of its own: in this one Playwright's loop may run."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def quick_lessons(**settings):
    """How a run learns from marks, with a few steps."""
    from core.engine.detectors.learnt.config import LearntConfig

    return LearntConfig(**{"width": 16, "steps": 4, **settings})


def scored_padim(store, study: str) -> tuple[str, str]:
    """(encoder run, fit run) of PaDiM on an encoder that was not trained, scored."""
    from core.studio.runs import pipeline

    encoder = pipeline.create_untrained(store, study, 32, arch=ARCH)
    fit = pipeline.create_fit(store, encoder, "padim", {"channels": 20})
    pipeline.pretrain_run(store, encoder)
    pipeline.fit_run(store, fit, "cpu")
    pipeline.score_run(store, fit, "cpu")
    return encoder, fit
