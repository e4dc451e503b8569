"""A reader chooses among listed weights; the answer is one and the same for any file of the machine, there or not."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from safetensors.torch import save_file

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder, save_encoder
from core.engine.config import BadConfig
from core.engine.files import file_sha256
from core.studio.db import audit
from core.studio.ingest.roots import Within
from core.studio.runs import records as runs
from core.studio.training import first_weights
from core.studio.training import requests as training
from tests.conftest import ARCH

SMALL = {"size": 32, "batch": 2, "epochs": 1}


def config(init: str) -> dict:
    return {**SMALL, "encoder": {"arch": ARCH, "init": init}}


@pytest.fixture
def file(tmp_path):
    """A file of weights that a training could begin with."""
    save_encoder(build_encoder(EncoderConfig(arch=ARCH)), tmp_path / "elsewhere")
    return (tmp_path / "elsewhere" / "encoder.safetensors").rename(tmp_path / "elsewhere" / "small.safetensors")


def test_the_same_answer_for_a_file_a_folder_and_nothing(store, run, file):
    (file.parent / "text.txt").write_text("no weights")
    tried = [file, file.parent, file.parent / "text.txt", file.parent / "absent.pth", "/etc/passwd", "/nowhere/x.pth"]
    said = set()
    for path in tried:
        for ask in (
            lambda path=path: training.checked(config(str(path)), store),
            lambda path=path: training.start(store, "tiny", config(str(path)), wake=False),
            lambda path=path: training.start(
                store, "tiny", config("random"), detectors={"igd": {"local_encoder": str(path)}}, wake=False
            ),
        ):
            with pytest.raises(BadConfig) as error:
                ask()
            said.add(str(error.value))
    assert len(said) == 1 and len(store.query("SELECT 1 FROM runs")) == 1


def test_an_administrator_names_a_file_of_a_root(store, file):
    assert training.checked(config(str(file)), store, Within([file.parent])).encoder.init == str(file)
    assert training.checked(config(str(file)), store, Within(None)).encoder.init == str(file)
    link = store.home.path / "link.safetensors"
    link.symlink_to(file)
    for path in (file, file.parent / ".." / file.parent.name / file.name, link):
        with pytest.raises(BadConfig):
            training.checked(config(str(path)), store, Within([store.home.path]))


def test_a_file_that_was_added_is_on_the_list_for_all(store, file):
    assert first_weights.add(store, file, "root")["name"] == file.name
    with pytest.raises(ValueError, match="already"):
        first_weights.add(store, file, "root")
    form = training.training_forms(store)["encoder"]
    options = next(f["options"] for g in form for f in g["fields"] if f["key"] == "init")
    assert options == ["random", "imagenet", "auto", file.name]
    ready = training.checked(config(file.name), store)
    assert ready.encoder.init == str(store.home.path / "weights" / file.name)
    assert training.checked(ready.to_dict(), store) == ready, "what a run keeps can be asked for again"
    build_encoder(ready.encoder)
    first_weights.remove(store, file.name, "root")
    with pytest.raises(BadConfig):
        training.checked(config(file.name), store)
    assert [e["kind"] for e in audit.trail(store)] == ["weights", "weights"]


def test_files_added_at_once_keep_their_own_names_and_contents(store, tmp_path):
    """Names that differ in their endings alone, each by two threads, one of which is told that it is there."""
    files = [tmp_path / f"enc.{ending}" for ending in ("safetensors", "pth", "pt")]
    for number, file in enumerate(files):
        tensors = {"weight": torch.full((50_000,), float(number))}
        save_file(tensors, file) if file.suffix == ".safetensors" else torch.save(tensors, file)

    def add(file):
        with contextlib.suppress(ValueError):
            first_weights.add(store, file, "root")
            return file.name

    with ThreadPoolExecutor(6) as pool:
        added = list(pool.map(add, files * 2))
    assert sorted(filter(None, added)) == sorted(file.name for file in files)
    for file in files:
        place = first_weights.folder_of(store) / file.name
        assert place.read_bytes() == file.read_bytes()
        assert first_weights.noted(store, file.name)["sha256"] == file_sha256(file)


def test_what_is_no_file_of_weights_is_not_added(store, tmp_path):
    (tmp_path / "x.pth").write_bytes(b"no")
    for name in ("x.pth", "absent.pth", "x.txt"):
        with pytest.raises(ValueError):
            first_weights.add(store, tmp_path / name, "root")
    assert first_weights.listed(store) == list(first_weights.NAMES)


def test_an_encoder_of_this_home_by_its_run(store, run):
    asked = training.checked(config(run), store)
    assert asked.encoder.init == str(store.home.path / runs.get_run(store, run)["folder"])
    assert training.checked(asked.to_dict(), store) == asked
