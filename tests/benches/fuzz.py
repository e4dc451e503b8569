"""Fuzzing: hostile inputs for each parser of data from strangers."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from core.engine.tensors import most_memory
from core.studio.bundle import export_bundle, import_bundle
from core.studio.db import opening
from core.studio.db.home import Home
from core.studio.ingest import uploads
from core.studio.ingest.decode import probe, read_image, read_raw
from core.studio.ingest.layouts import read_layout
from core.studio.ingest.studies import delete_study, import_study, list_studies
from core.studio.medmix.presets import built_in, from_yaml, to_yaml
from tests.benches import bench


@dataclass
class Reader:
    """A parser of data from strangers.

    read(data) reads bytes (of requests: what JSON holds), or refuses with a ValueError; `seeds` are valid.
    """

    name: str
    read: Callable[[Any], object]
    seeds: list[Any] = field(default_factory=list)
    close: Callable[[], object] = lambda: None


def _pixels(depth: type = np.uint8) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, np.iinfo(depth).max, (24, 32, 3), depth)


def _look(path: Path) -> None:
    probe(path)
    read_image(path)
    read_raw(path)


def images(folder: Path) -> Reader:
    file = folder / "image"
    kinds = [(".png", np.uint8), (".png", np.uint16), (".jpg", np.uint8), (".tiff", np.uint16), (".bmp", np.uint8)]
    kinds += [(".webp", np.uint8), (".gif", np.uint8)]
    seeds = []
    for suffix, depth in kinds:
        done, data = cv2.imencode(suffix, _pixels(depth)) if suffix != ".gif" else (True, _gif())
        seeds.append(data.tobytes() if done else b"")

    def read(data: bytes) -> None:
        file.write_bytes(data)
        _look(file)

    return Reader("images", read, seeds)


def _gif() -> np.ndarray:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(_pixels()).save(out, "GIF", save_all=True, append_images=[Image.fromarray(_pixels())])
    return np.frombuffer(out.getvalue(), np.uint8)


def dicom(folder: Path) -> Reader:
    import pydicom
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

    seeds = []
    for pixels in (_pixels(), _pixels(np.uint16)[..., 0]):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, "1.2.3"
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        ds = FileDataset("x", {}, file_meta=meta, preamble=b"\0" * 128)
        ds.SOPClassUID, ds.SOPInstanceUID, ds.Modality, ds.PatientName = CTImageStorage, "1.2.3", "CT", "Nobody"
        ds.Rows, ds.Columns = pixels.shape[:2]
        ds.SamplesPerPixel, ds.PlanarConfiguration = pixels.ndim * 2 - 3, 0
        ds.PhotometricInterpretation = "RGB" if pixels.ndim == 3 else "MONOCHROME2"
        ds.BitsAllocated = ds.BitsStored = pixels.dtype.itemsize * 8
        ds.HighBit, ds.PixelRepresentation = ds.BitsStored - 1, 0
        ds.WindowCenter, ds.WindowWidth, ds.RescaleSlope, ds.RescaleIntercept = 40, 400, 1, -1024
        ds.PixelData = pixels.tobytes()
        out = io.BytesIO()
        pydicom.dcmwrite(out, ds, enforce_file_format=True)
        seeds.append(out.getvalue())
    file = folder / "image.dcm"

    def read(data: bytes) -> None:
        file.write_bytes(data)
        _look(file)

    return Reader("dicom", read, seeds)


def table(folder: Path) -> Reader:
    file = folder / "table.csv"
    rows = "path,split,label,mask\na.png,train,normal,\nb.png,test,abnormal,m.png\nc.png,test,unknown,\n"

    def read(data: bytes) -> None:
        file.write_bytes(data)
        for _ in read_layout(file, "table")[1]:
            pass

    return Reader("csv", read, [rows.encode(), b"\xef\xbb\xbf" + rows.encode()])


def preset(folder: Path) -> Reader:
    seeds = [to_yaml(recipe).encode() for recipe in built_in()]
    return Reader("yaml", lambda data: from_yaml(data.decode("utf-8", "replace")), seeds)


def zipped(folder: Path) -> Reader:
    home = Home.at(folder / "home")
    seeds = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as archive:
            archive.writestr("train/normal/a.png", bytes(300))
            archive.writestr("test/normal/b.png", b"x" * 300)
        seeds.append(out.getvalue())

    def read(data: bytes) -> None:
        token = uploads.new_drop(home)
        try:
            uploads.place(home, token, "in.zip").write_bytes(data)
            uploads.unpack(home, token)
        finally:
            uploads.discard(home, token)

    return Reader("zip", read, seeds)


def bundle(folder: Path) -> Reader:
    store, target = opening.open(Home.at(folder / "home")), opening.open(Home.at(folder / "target"))
    (folder / "images").mkdir()
    for i in range(4):
        cv2.imwrite(str(folder / "images" / f"{i}.png"), np.roll(_pixels(), i))
    import_study(store, "s", folder / "images")
    export_bundle(store, "s", folder / "s.zip", "bench")
    file = folder / "in.zip"

    def read(data: bytes) -> None:
        file.write_bytes(data)
        import_bundle(target, file, "bench")
        for study in list_studies(target):
            delete_study(target, study["id"])

    def close() -> None:
        store.close()
        target.close()

    with zipfile.ZipFile(folder / "s.zip") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:  # stored, so that a change reaches rows and manifest
        for name, data in entries.items():
            archive.writestr(name, data)
    return Reader("bundle", read, [(folder / "s.zip").read_bytes(), out.getvalue()], close)


def requests(folder: Path) -> Reader:
    """Makes the reader for every route that takes a body, with bodies of any shape: no answer may be a 5xx."""
    from fastapi.testclient import TestClient

    from app import routes
    from app.server import build

    home = Home.at(folder / "home")
    server = build(home)
    ctx = server.state.ctx
    changing = [r for r in routes.every_route() if not r.methods & {"GET"}]
    started = ("/look", "/demo", "/prepare", "/reset", "/dry", "/start", "/repeat", "/import")  # work that goes on
    changing = [r for r in changing if not r.path.endswith(started)]
    names = sorted({n for r in changing if r.body_field for n in r.body_field.field_info.annotation.model_fields})
    client = TestClient(server, base_url="http://localhost", raise_server_exceptions=False)

    def read(given: tuple[int, str, Any]) -> None:
        number, segment, body = given
        route = changing[number % len(changing)]
        path = re.sub(r"\{\w+\}", lambda m: segment or "x", route.path)
        answer = client.request(next(iter(route.methods)), path, content=json.dumps(body).encode())
        if answer.status_code >= 500:
            raise RuntimeError(f"{route.path} answered {answer.status_code}: {answer.text[:200]}")
        if answer.status_code >= 400:
            raise ValueError

    return Reader("requests", read, names, lambda: ctx.store().close())


READERS = {r.__name__: r for r in (images, dicom, table, preset, zipped, bundle, requests)}


INPUTS, QUICK = 10_000, 40
SLOWEST, STUCK = 5.0, 60.0  # seconds of computing, and by the clock, which runs on while other programs have the cores
GROWTH = 600  # MB that reading may add at its peak: a picture may have 150 megapixels, and is refused above


class _Over(BaseException):
    """Raised when the time for one reader is over; hypothesis lets this pass as it lets an interrupt."""


@bench("fuzz")
def fuzz(quick: bool = False, only: tuple[str, ...] = (), seconds: float = math.inf) -> dict:
    """Fuzzing: 10,000 hostile inputs for each parser of data from strangers.

    --only images, dicom, table, preset, zipped, bundle or requests; --seconds: no longer than that for each. An input
    is read or refused with a sentence; anything else, 5 s of computing or 60 s of waiting for one input, or memory that
    grows is a failure.

    {"readers": [{"reader", "inputs", "read", "refused", "failed", "slowest", "longest", "growth_mb", "failures"}],
    "failed"}. slowest, longest: seconds that one input was computed on, and by the clock. growth_mb: what reading them
    all added to the most memory held.
    """
    unknown = sorted(set(only) - set(READERS))
    if unknown:
        raise ValueError(f"unknown reader {unknown[0]!r}; choose from: {', '.join(READERS)}")
    rows = []
    for name, make in READERS.items():
        if not only or name in only:
            with tempfile.TemporaryDirectory(prefix="pmsacl-fuzz-") as folder:
                reader = make(Path(folder))
                try:
                    rows.append(_fuzz(reader, QUICK if quick else INPUTS, seconds))
                finally:
                    reader.close()
    return {"readers": rows, "failed": sum(row["failed"] for row in rows)}


def _fuzz(reader: Reader, inputs: int, seconds: float = math.inf) -> dict:
    try:
        from hypothesis import HealthCheck, Phase, given, settings
    except ImportError:
        raise ValueError("fuzzing needs hypothesis: pip install -r tests/requirements.txt") from None
    counts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    slowest = longest = 0.0
    before, began = _peak_mb(), math.inf  # of the first input: what comes before is not the reader's

    @settings(
        max_examples=inputs, database=None, deadline=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(_requests(reader) if reader.name == "requests" else _changed(reader.seeds))
    def one(data: Any) -> None:
        nonlocal slowest, longest, began
        started, computed = time.monotonic(), time.process_time()
        began = min(began, started)
        if started - began > seconds:
            raise _Over
        try:
            reader.read(data)
            counts["read"] += 1
        except ValueError:
            counts["refused"] += 1
        except Exception as error:  # what is looked for here
            failures[f"{type(error).__name__}: {error}"[:300]] += 1
        slowest = max(slowest, time.process_time() - computed)
        longest = max(longest, time.monotonic() - started)

    with contextlib.suppress(_Over):
        one()
    growth = _peak_mb() - before
    failed = sum(failures.values()) + (slowest > SLOWEST) + (longest > STUCK) + (growth > GROWTH)
    return {
        "reader": reader.name,
        "inputs": counts.total() + sum(failures.values()),
        **{kind: counts[kind] for kind in ("read", "refused")},
        "failed": failed,
        "slowest": round(slowest, 3),
        "longest": round(longest, 3),
        "growth_mb": round(growth, 1),
        "failures": dict(failures.most_common(10)),
    }


def _changed(seeds: list[bytes]):
    """A seed with some bytes changed, cut, doubled or put in; now and then random bytes."""
    from hypothesis import strategies as st

    place = st.floats(0, 1, exclude_max=True)
    change = st.tuples(st.sampled_from(["set", "cut", "double", "put", "flip", "zero"]), place, st.binary(max_size=12))

    def apply(seed: bytes, changes: list[tuple[str, float, bytes]]) -> bytes:
        data = bytearray(seed)
        for what, where, new in changes:
            at = int(where * len(data))
            if what == "set":
                data[at : at + len(new)] = new
            elif what == "cut":
                del data[at : at + max(1, len(new) * 20)]
            elif what == "double":
                data[at:at] = data[at : at + 300]
            elif what == "put":
                data[at:at] = new
            elif data:
                data[at] = 0 if what == "zero" else data[at] ^ 0xFF
        return bytes(data)

    whole = st.builds(apply, st.sampled_from(seeds), st.lists(change, min_size=1, max_size=6))
    return st.one_of(whole, whole, whole, st.binary(max_size=600))


def _requests(reader: Reader):
    from hypothesis import strategies as st

    number = st.one_of(st.integers(), st.integers(-(10**30), 10**30), st.floats())
    text = st.one_of(st.text(max_size=40), st.sampled_from(["room", "..", "/", "\0", "x" * 5000]))
    leaf = st.one_of(st.none(), st.booleans(), number, text)
    value = st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=12
    )
    body = st.one_of(value, st.dictionaries(st.sampled_from(reader.seeds), value, max_size=8))
    segment = st.one_of(
        st.sampled_from(["1", "0", "x", "a" * 32]), st.from_regex(r"[A-Za-z0-9._~-]{1,40}", fullmatch=True)
    )
    return st.tuples(st.integers(0, 1000), segment, body)


def _peak_mb() -> float:
    """The most memory this process has held so far, in MB; 0 where the system does not say."""
    return most_memory(torch.device("cpu")) / 1024**2
