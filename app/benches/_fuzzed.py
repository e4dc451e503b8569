"""What the fuzzing bench feeds: each reader of strangers' data with valid seeds, which are then changed at random."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from core.studio.db.home import Home
from core.studio.db.store import Store
from core.studio.ingest import uploads
from core.studio.ingest.decode import probe, read_image, read_raw
from core.studio.ingest.layouts import read_layout
from core.studio.ingest.studies import delete_study, import_study, list_studies
from core.studio.medmix.presets import built_in, from_yaml, to_yaml
from core.studio.review.exports.bundle import export_bundle, import_bundle


@dataclass
class Reader:
    """read(data) reads bytes (of requests: what JSON holds), or refuses with a ValueError; `seeds` are valid."""

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
    seeds = [to_yaml(one).encode() for one in built_in()]
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
    store, target = Store(Home.at(folder / "home")), Store(Home.at(folder / "target"))
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
    """Every route that takes a body, with bodies of any shape: no answer is a 5xx."""
    from fastapi.testclient import TestClient

    from app import routes
    from app.server import build

    home = Home.at(folder / "home")
    server = build(home)
    ctx = server.state.ctx
    found = [r for r in routes.every_route() if not r.methods & {"GET"}]
    started = ("/look", "/demo", "/prepare", "/reset", "/dry", "/start", "/repeat", "/import")  # work that goes on
    found = [r for r in found if not r.path.endswith(started)]
    names = sorted({n for r in found if r.body_field for n in r.body_field.field_info.annotation.model_fields})
    client = TestClient(server, base_url="http://localhost", raise_server_exceptions=False)

    def read(given: tuple[int, str, Any]) -> None:
        number, part, body = given
        route = found[number % len(found)]
        path = re.sub(r"\{\w+\}", lambda m: part or "x", route.path)
        answer = client.request(next(iter(route.methods)), path, content=json.dumps(body).encode())
        if answer.status_code >= 500:
            raise RuntimeError(f"{route.path} answered {answer.status_code}: {answer.text[:200]}")
        if answer.status_code >= 400:
            raise ValueError

    return Reader("requests", read, names, lambda: ctx.store().close())


READERS = {r.__name__: r for r in (images, dicom, table, preset, zipped, bundle, requests)}
