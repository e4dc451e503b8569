"""Transfer syntaxes: one drawn picture in every form that is decoded comes back equal, by any number of threads."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import numpy as np
import pydicom
import pytest
from pydicom.encaps import encapsulate, generate_frames

from core.studio.ingest import own_process
from core.studio.ingest.decode import probe, read_image, read_raw
from core.studio.ingest.dicom_pixels import read_values
from core.studio.ingest.unreadable import Unreadable
from tests.conftest import at_once
from tests.studio.ingest.dicoms import write_dicom

Y, X = np.mgrid[:24, :32]
GREY = ((X + Y) * (4095 / 54)).astype(np.uint16)
COLOUR = np.stack([X * 8, Y * 10, 255 - X * 4], -1).astype(np.uint8)
PICTURES = {
    "grey 8": (GREY >> 4).astype(np.uint8),
    "grey 12": GREY,
    "signed 16": GREY.astype(np.int16) - 2000,
    "grey 16": GREY * 16,
    "colour": COLOUR,
    "frames": np.stack([GREY, GREY // 2, GREY // 3]),
}
PLAIN = ["ImplicitVRLittleEndian", "ExplicitVRLittleEndian", "ExplicitVRBigEndian", "DeflatedExplicitVRLittleEndian"]
LOSSLESS = ["RLELossless", "JPEGLosslessProcess14", "JPEGLosslessProcess14_1", "JPEGLSLossless", "JPEGLSNearLossless",
            "JPEG2000Lossless", "JPEG2000"]  # fmt: skip
LOSSY = {"JPEGBaselineProcess1": ["grey 8", "colour"], "JPEGExtendedProcess2_4": ["grey 8", "colour", "grey 12"]}


def plain(path: Path, pixels: np.ndarray, name: str = "", **tags) -> Path:
    stored = pixels.view(np.uint16) if pixels.dtype == np.int16 else pixels
    tags |= {"PixelRepresentation": int(pixels.dtype == np.int16), "Modality": "OT"}
    tags |= {"BitsStored": 12, "HighBit": 11} if name in ("grey 12", "frames") else {}
    write_dicom(path, stored.astype(np.uint16) if stored.dtype == np.uint8 and stored.ndim == 2 else stored, **tags)
    if stored.dtype == np.uint8 and stored.ndim == 2:
        ds = pydicom.dcmread(path)
        ds.BitsAllocated = ds.BitsStored = 8
        ds.HighBit, ds.PixelData = 7, stored.tobytes()
        ds["PixelData"].VR = "OB"
        ds.save_as(path)
    return path


def coded(path: Path, syntax: str) -> Path:
    """The file in another transfer syntax, written by GDCM."""
    import gdcm

    reader, change = gdcm.ImageReader(), gdcm.ImageChangeTransferSyntax()
    reader.SetFileName(str(path))
    assert reader.Read()
    change.SetTransferSyntax(gdcm.TransferSyntax(getattr(gdcm.TransferSyntax, syntax)))
    change.SetInput(reader.GetImage())
    assert change.Change(), syntax
    writer, target = gdcm.ImageWriter(), path.with_name(f"{syntax}.dcm")
    writer.SetFile(reader.GetFile())
    writer.SetImage(change.GetOutput())
    writer.SetFileName(str(target))
    assert writer.Write()
    return target


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("syntax", [*PLAIN, *LOSSLESS])
def test_a_picture_comes_back_equal(tmp_path, name, syntax):
    pixels = PICTURES[name]
    path = coded(plain(tmp_path / "a.dcm", pixels, name), syntax)
    assert probe(path).frames == (3 if name == "frames" else 1)
    for frame, wanted in enumerate(pixels if name == "frames" else [pixels]):
        assert np.array_equal(read_raw(path, frame), wanted)


@pytest.mark.parametrize("syntax, name", [(syntax, name) for syntax, names in LOSSY.items() for name in names])
def test_lossy_pictures_come_back_near(tmp_path, syntax, name):
    pixels = PICTURES[name].astype(float)
    read = read_raw(coded(plain(tmp_path / "a.dcm", PICTURES[name], name), syntax))
    assert read.shape == pixels.shape and np.abs(read - pixels).max() <= (8 if name == "colour" else 4)


@pytest.mark.parametrize("name", ["grey", "colour"])
@pytest.mark.parametrize("uid, kind", [(201, "lossless"), (202, "lossless"), (203, "lossy")])
def test_high_throughput_jpeg_2000(tmp_path, name, uid, kind):
    """The streams were encoded by OpenJPH; nothing that the project needs writes them."""
    streams = json.loads((Path(__file__).parents[2] / "data" / "htj2k.json").read_text())
    pixels = PICTURES["grey 12" if name == "grey" else "colour"]
    ds = pydicom.dcmread(plain(tmp_path / "a.dcm", pixels, "grey 12" if name == "grey" else ""))
    ds.PixelData = encapsulate([base64.b64decode(streams[f"{name} {kind}"])])
    ds["PixelData"].VR, ds["PixelData"].is_undefined_length = "OB", True
    ds.file_meta.TransferSyntaxUID = f"1.2.840.10008.1.2.4.{uid}"
    ds.PhotometricInterpretation = ds.PhotometricInterpretation if name == "grey" else "YBR_RCT"
    ds.save_as(tmp_path / "b.dcm")
    read = read_raw(tmp_path / "b.dcm")
    assert read.shape == pixels.shape and np.abs(read - pixels.astype(float)).max() <= (2 if kind == "lossy" else 0)


@pytest.mark.slow
def test_compressed_files_of_the_shared_cases(cases, tmp_path):
    module = cases("dicom_compressed")
    module.lossless(tmp_path)
    for bits in (8, 12):
        wanted = read_values(tmp_path / f"plain{bits}.dcm")
        for syntax in module.SYNTAXES:
            assert np.array_equal(read_values(tmp_path / f"lossless{bits}_{syntax}.dcm"), wanted)
    module.extended(tmp_path)
    for name in module.EXTENDED:
        shown = read_image(tmp_path / name)
        assert shown.shape == (1024, 256, 3) and shown.min() == 0 and shown.max() == 255


@pytest.mark.parametrize(
    "syntax", ["JPEGLosslessProcess14_1", "JPEG2000Lossless", "JPEGLSLossless", "JPEGBaselineProcess1"]
)
def test_a_header_that_says_another_size_than_the_stream_is_not_believed(tmp_path, syntax):
    path = coded(plain(tmp_path / "a.dcm", PICTURES["grey 8"]), syntax)
    ds = pydicom.dcmread(path)
    ds.Rows, ds.Columns = ds.Columns, ds.Rows  # as many pixels, and rows torn
    ds.save_as(path)
    with pytest.raises(Unreadable, match="its header says 24 x 32 pixels of 1 values, its picture has 32 x 24"):
        read_image(path)


@pytest.mark.parametrize("syntax", ["JPEGLosslessProcess14_1", "RLELossless", "JPEG2000Lossless"])
def test_frames_that_are_missing_or_damaged_are_named(tmp_path, syntax):
    path = coded(plain(tmp_path / "a.dcm", PICTURES["frames"], "frames"), syntax)
    ds = pydicom.dcmread(path)
    streams = list(generate_frames(ds.PixelData, number_of_frames=3))
    ds.PixelData = encapsulate(streams[:2])
    ds.save_as(path)
    with pytest.raises(Unreadable, match="cut short|damaged"):
        read_image(path, 2)


@pytest.mark.parametrize(
    "syntax", ["JPEGLosslessProcess14_1", "JPEG2000Lossless", "JPEGLSLossless", "JPEGBaselineProcess1"]
)
def test_a_compressed_file_whose_header_does_not_say_how(tmp_path, syntax):
    path = coded(plain(tmp_path / "a.dcm", PICTURES["grey 8"]), syntax)
    wanted, ds = read_raw(path), pydicom.dcmread(path)
    for wrong in (pydicom.uid.ExplicitVRLittleEndian, None):
        ds.file_meta.TransferSyntaxUID = wrong or ""
        pydicom.dcmwrite(path, ds, implicit_vr=False, little_endian=True, overwrite=True)
        assert np.array_equal(read_raw(path), wanted)


@pytest.mark.parametrize(
    "uid, name", [("1.2.840.10008.1.2.4.102", "MPEG-4"), ("1.2.840.10008.1.2.4.92", "Multi-component")]
)
def test_forms_without_a_decoder_are_named(tmp_path, uid, name):
    ds = pydicom.dcmread(plain(tmp_path / "a.dcm", PICTURES["grey 8"]))
    ds.PixelData = encapsulate([b"\x00\x00\x00\x18ftypmp42"])
    ds["PixelData"].VR, ds["PixelData"].is_undefined_length = "OB", True
    ds.file_meta.TransferSyntaxUID = uid
    ds.save_as(tmp_path / "a.dcm")
    with pytest.raises(Unreadable, match=f"compressed as .*{name}.*no decoder"):
        read_image(tmp_path / "a.dcm")


@pytest.mark.slow
@pytest.mark.parametrize("syntax", ["JPEGLosslessProcess14_1", "JPEGLSLossless"])
def test_a_stream_that_ends_the_decoder_leaves_a_sentence(tmp_path, syntax):
    path = coded(plain(tmp_path / "a.dcm", PICTURES["grey 8"]), syntax)
    wanted, ds = read_raw(path), pydicom.dcmread(path)
    [stream] = generate_frames(ds.PixelData, number_of_frames=1)
    for seed in range(12):  # some of them end GDCM's process
        draw, damaged = random.Random(seed), bytearray(stream)
        for _ in range(3):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        ds.PixelData = encapsulate([bytes(damaged)])
        ds.save_as(tmp_path / "b.dcm")
        try:
            assert read_image(tmp_path / "b.dcm").shape == (24, 32, 3)
        except Unreadable as refused:
            assert str(refused)
    assert np.array_equal(read_raw(path), wanted)


def test_a_decoder_that_does_not_answer_is_ended(tmp_path, monkeypatch):
    path = coded(plain(tmp_path / "a.dcm", PICTURES["grey 8"]), "JPEGLosslessProcess14_1")
    monkeypatch.setattr(own_process, "_idle", [])
    monkeypatch.setattr(own_process, "PATIENCE", 0.0)
    with pytest.raises(Unreadable, match="cannot be decoded"):
        read_image(path)
    monkeypatch.undo()
    assert read_image(path).shape == (24, 32, 3)


@pytest.mark.slow
def test_threads_decode_alike(tmp_path):
    files = []
    for syntax in ("JPEGLosslessProcess14_1", "JPEGLSLossless", "JPEG2000Lossless", "JPEGExtendedProcess2_4"):
        (tmp_path / syntax).mkdir()
        files.append(coded(plain(tmp_path / syntax / "a.dcm", PICTURES["grey 12"], "grey 12"), syntax))
    alone = [read_raw(file) for file in files]
    for number, read in enumerate(at_once(lambda i: read_raw(files[i % len(files)]), 24)):
        assert np.array_equal(read, alone[number % len(files)])
