"""DICOM as devices, archives and anonymisers write it: headers out of the standard, objects that are no images."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import numpy as np
import pydicom
import pytest
from pydicom.dataelem import RawDataElement
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate, generate_frames
from pydicom.tag import Tag
from pydicom.uid import UID_dictionary

from core.studio.ingest import dicom, own_process
from core.studio.ingest.decode import probe, read_image, read_raw
from core.studio.ingest.dicom_pixels import read_values
from core.studio.ingest.layouts import Entry
from core.studio.ingest.reader import read_all
from core.studio.ingest.studies import import_study
from core.studio.ingest.unreadable import Unreadable
from tests.conftest import at_once, picture, write
from tests.studio.ingest.dicoms import write_dicom

RAMP = (np.add.outer(np.arange(48), np.arange(64)) * (4095 / 110)).astype(np.uint16)
LINE = RAMP * (255 / 4095)
M12 = {"BitsStored": 12, "HighBit": 11}


def off(path, line=LINE) -> float:
    """The mean difference between a file's picture and a ramp from black to white."""
    return float(np.abs(read_image(path)[..., 1].astype(float) - line).mean())


def taken(*paths):
    """(frames, reasons of what is left out) of an import's reading."""
    found, rejected = read_all([Entry(path) for path in paths], None)
    return found, {row["path"].rpartition("/")[2]: row["reason"] for row in rejected}


@pytest.mark.slow
def test_headers_of_the_shared_cases_give_the_ramp(cases, tmp_path):
    module, line = cases("dicom_headers"), None
    module.headers(tmp_path)
    line = cases("dicom_make").ramp(top=255, dtype=np.uint8)
    files = sorted(tmp_path.iterdir())
    assert {*module.HEADERS, *module.SWAPPED} <= {file.stem for file in files}
    found, left_out = taken(*files)
    assert left_out == {} and [f.entry.path for f in found if f.frames > 1] == []
    assert {file.name: off(file, line) for file in files if off(file, line) >= 8} == {}
    odd = {f.entry.path.stem for f in found if f.odd}
    assert {"window_width_0", "spacing_one", "rescale_slope_0", "instance_text", "bits_stored_missing"} <= odd
    assert not odd & {"ok", "window_empty", "rescale_empty", "window_comma", "charset", "frames_empty", "age"}
    assert dicom.spacing_of_header(dicom.header(tmp_path / "spacing_comma.dcm")) == {
        "x": 0.71,
        "y": 0.71,
        "at": "patient",
    }
    assert dicom.spacing_of_header(dicom.header(tmp_path / "spacing_one.dcm")) is None


def test_pixels_of_the_shared_cases(cases, tmp_path):
    cases("dicom_headers").pixels(tmp_path)
    bands = read_image(tmp_path / "palette.dcm")[32, [5, 30, 60]]
    assert bands.tolist() == [[0, 0, 0], [255, 0, 0], [0, 255, 0]]
    found, _ = taken(tmp_path / "padding.dcm")
    scale = found[0].measured.low, found[0].measured.high
    inside = cases("dicom_headers").padded() > -32768
    for shown in (read_image(tmp_path / "padding.dcm"), read_image(tmp_path / "padding.dcm", 0, scale)):
        levels = shown[..., 0][inside]
        assert int(np.ptp(levels)) > 120 and shown[..., 0][~inside].max() == 0
    red, green, blue = np.moveaxis(read_image(tmp_path / "rgb_planar.dcm"), 2, 0)
    assert (red == cases("dicom_make").ramp(top=255, dtype=np.uint8)).all() and green.max() == 0 and (blue == 200).all()


BAD = [
    "",
    None,
    "0",
    "-1",
    "1e400",
    "abc",
    "1\\2\\3\\4",
    "NaN",
]  # values of a number that does not matter to the picture
ODD = {  # keyword: values that must count as none, whatever else is wrong
    "WindowWidth": [None, "0", "-400", "abc", "NaN"],
    "WindowCenter": [None, "abc", "inf"],
    "RescaleSlope": [None, "0", "abc"],
    "RescaleIntercept": [None, "abc"],
    "VOILUTSequence": [[], [Dataset()]],
    "ModalityLUTSequence": [[], [Dataset()]],
    "NumberOfFrames": [None, "0", "abc"],
} | dict.fromkeys(
    ["PixelSpacing", "ImagerPixelSpacing", "ImagePositionPatient", "ImageOrientationPatient", "InstanceNumber",
     "SliceThickness", "SpacingBetweenSlices"], BAD
)  # fmt: skip
GONE = ["SOPClassUID", "SOPInstanceUID", "BitsStored", "PixelRepresentation", "PhotometricInterpretation",
        "SamplesPerPixel", "Modality", "HighBit"]  # fmt: skip


def element(keyword, value):
    """An element with a value that pydicom would not let through, as bytes in a file can have it."""
    tag = pydicom.datadict.tag_for_keyword(keyword)
    if isinstance(value, list):
        return pydicom.DataElement(tag, "SQ", value)
    return raw(tag, b"" if value is None else value.encode())


def raw(tag, data):
    """An element of these bytes, whatever its kind."""
    data += b" " * (len(data) % 2)
    return RawDataElement(Tag(tag), pydicom.datadict.dictionary_VR(tag)[:2], len(data), data, 0, False, True)


@pytest.mark.parametrize("seed", range(40))
def test_a_drawn_header_gives_the_ramp_or_is_left_out_by_name(tmp_path, seed):
    draw = random.Random(seed)
    write_dicom(tmp_path / "a.dcm", RAMP, **M12)
    ds = pydicom.dcmread(tmp_path / "a.dcm")
    for keyword in draw.sample(sorted(ODD), draw.randint(1, 6)):
        ds[keyword] = element(keyword, draw.choice(ODD[keyword]))
    for keyword in draw.sample(GONE, draw.randint(0, 3)):
        if keyword in ds:
            del ds[keyword]
    ds.save_as(tmp_path / "a.dcm")
    if draw.random() < 0.3:  # without preamble and meta header
        data = (tmp_path / "a.dcm").read_bytes()
        (tmp_path / "a.dcm").write_bytes(data[144 + int.from_bytes(data[140:144], "little") :])
    found, left_out = taken(tmp_path / "a.dcm")
    if left_out:  # with no word of a library in it
        assert "NumberOfFrames" not in left_out["a.dcm"] and "Error" not in left_out["a.dcm"], left_out
        pytest.fail(f"it is a ramp: {left_out}")
    assert len(found) == 1 and off(tmp_path / "a.dcm") < 8
    dicom.header(tmp_path / "a.dcm")
    dicom.spacing_of_case({"path": str(tmp_path / "a.dcm"), "sha256": str(seed)})


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("kind", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize("limit", [False, True])
def test_padding_is_no_part_of_a_scale_and_black(tmp_path, signed, kind, limit):
    image = (RAMP // 8 + 100).astype(np.int16 if signed else np.uint16)
    padding = -2000 if signed else 63536
    image[:, :9] = padding
    tags = {"PixelRepresentation": int(signed), "PhotometricInterpretation": kind, "PixelPaddingValue": padding}
    if limit:
        image[:, 4:9] = padding - 50
        tags["PixelPaddingRangeLimit"] = padding - 100
    path = write_dicom(tmp_path / "a.dcm", image.view(np.uint16), **tags)
    shown = read_image(path)[..., 0]
    inside = shown[:, 9:]
    assert shown[:, :9].max() == 0 and inside.min() == 0 and inside.max() == 255 and len(np.unique(inside)) > 100
    assert (inside[0, 0] > inside[-1, -1]) == (kind == "MONOCHROME1")
    assert read_raw(path).min() == image[:, 9:].min()


def table(entries, first=0, bits=16, data=None):
    item = Dataset()
    item.LUTDescriptor = [len(entries) % 65536, first, bits]
    item.LUTData = data if data is not None else [int(v) for v in entries]
    item["LUTDescriptor"].VR = "US"
    item["LUTData"].VR = "OW" if data is not None else "US"
    return [item]


@pytest.mark.parametrize("kind", ["VOILUTSequence", "ModalityLUTSequence"])
@pytest.mark.parametrize("form", ["numbers", "bytes", "8 bits"])
def test_lookup_tables_in_the_forms_they_are_written(tmp_path, kind, form):
    bits = 8 if form == "8 bits" else 16
    entries = np.linspace((1 << bits) - 1, 0, 4096).astype(np.uint8 if bits == 8 else np.uint16)  # it inverts
    data = None if form == "numbers" else entries.astype("<u1" if bits == 8 else "<u2").tobytes()
    path = write_dicom(tmp_path / "a.dcm", RAMP, **M12, **{kind: table(entries, 0, bits, data)})
    assert off(path, 255 - LINE) < 3
    damaged = write_dicom(tmp_path / "b.dcm", RAMP, **M12, **{kind: table([], 0, bits)})
    assert off(damaged) < 3 and dicom.header(damaged).odd


@pytest.mark.parametrize("width", [0.25, 0.9, 1.0, 2.0, 1000.0])
def test_windows_of_any_width_and_function(tmp_path, width):
    for function in ("LINEAR", "LINEAR_EXACT", "SIGMOID"):
        tags = {"WindowCenter": "0.5", "WindowWidth": str(width), "VOILUTFunction": function}
        path = write_dicom(tmp_path / "a.dcm", RAMP, **M12, RescaleSlope=str(1 / 4095), RescaleIntercept="0", **tags)
        row = read_image(path)[0, :, 0].astype(int)
        assert (np.diff(row) >= 0).all() and (width > 1 or row[0] < 40)
    exact = write_dicom(tmp_path / "b.dcm", RAMP, **M12, WindowCenter="2047.5", WindowWidth="4096")
    assert off(exact) < 1


def test_objects_that_are_no_images_are_named_and_nothing_of_them_is_learnt(cases, store, tmp_path):
    cases("dicom_objects").examination(tmp_path / "in")
    report = import_study(store, "s", tmp_path / "in")
    assert report.accepted == 6
    [row] = report.rejected
    assert row["path"].endswith("seg.dcm") and "not an image of a patient: Segmentation" in row["reason"]


KINDS = sorted(uid for uid, (name, kind, *_) in UID_dictionary.items() if kind == "SOP Class" and " Storage" in name)


@pytest.mark.slow
def test_every_class_of_the_standard_is_an_image_or_named(tmp_path):
    path, images = tmp_path / "a.dcm", set()
    for uid in KINDS:
        write_dicom(path, RAMP, SOPClassUID=uid)
        try:
            assert dicom.probe(path)[:2] == (64, 48)
            images.add(UID_dictionary[uid][0])
        except dicom.Unreadable as refused:
            assert str(refused).startswith("a DICOM object that is not an image of a patient: ")
    assert len(images) > 50 and {name for name in images if "Image" not in name} == {"Enhanced US Volume Storage"}
    wrong = ("Segmentation", "Presentation", "RT ", "Structured", "Registration", "Waveform", "Parametric")
    assert {n for n in images if n.startswith(wrong)} == set()


@pytest.mark.parametrize("tags", [
    {"SOPClassUID": "1.2.3.4", "Modality": "SEG"},
    {"SOPClassUID": None, "Modality": "RTDOSE"},
    {"SOPClassUID": "1.2.3.4", "SegmentSequence": [Dataset()]},
    {"ImageType": ["ORIGINAL", "PRIMARY", "LOCALIZER"]},
    {"ImageType": ["DERIVED", "SECONDARY", "SCOUT", "X"]},
    {"ImageType": ["ORIGINAL", "PRIMARY", "LABEL", "NONE"], "Modality": "SM"},
])  # fmt: skip
def test_objects_are_known_by_what_they_hold(tmp_path, tags):
    write_dicom(tmp_path / "a.dcm", RAMP)
    ds = pydicom.dcmread(tmp_path / "a.dcm")
    for keyword, value in tags.items():
        setattr(ds, keyword, "" if value is None else value)
    ds.save_as(tmp_path / "a.dcm")
    assert "not an image of a patient" in taken(tmp_path / "a.dcm")[1]["a.dcm"]


def test_pixels_that_are_not_as_many_as_the_header_says(tmp_path):
    few = write_dicom(tmp_path / "few.dcm", RAMP, Rows=96)
    many = write_dicom(tmp_path / "many.dcm", np.stack([RAMP] * 3), NumberOfFrames=1)
    reasons = taken(few, many)[1]
    assert reasons["few.dcm"].startswith("cut short: ") and "it contains 3" in reasons["many.dcm"]


@pytest.mark.parametrize("depth", [8, 16])
def test_palettes_give_their_colours(tmp_path, depth):
    places = np.repeat(np.arange(64, dtype=np.uint8)[None], 48, 0)
    top = (1 << depth) - 1
    tags = {"PhotometricInterpretation": "PALETTE COLOR"}
    for colour, entries in (("Red", np.arange(64) * top // 63), ("Green", top - np.arange(64) * top // 63),
                            ("Blue", np.zeros(64))):  # fmt: skip
        tags[f"{colour}PaletteColorLookupTableDescriptor"] = [64, 0, 16]  # some say 16 and write 8 bits
        tags[f"{colour}PaletteColorLookupTableData"] = entries.astype("<u2").tobytes()
    path = write_dicom(tmp_path / "a.dcm", RAMP, **tags)
    ds = pydicom.dcmread(path)
    ds.BitsAllocated = ds.BitsStored = 8
    ds.HighBit, ds.PixelData = 7, places.tobytes()
    ds.save_as(path)
    shown = read_image(path)
    assert shown[0, 0].tolist() == [0, 255, 0] and shown[0, 63].tolist() == [255, 0, 0]
    del ds.GreenPaletteColorLookupTableData
    ds.save_as(path)
    assert "green" in taken(path)[1]["a.dcm"]


PIXELS = np.zeros((8, 9), np.uint16)


def shared(values):
    """The functional groups of a multi-frame file whose frames share one spacing."""
    measures, groups = Dataset(), Dataset()
    measures.PixelSpacing = values
    groups.PixelMeasuresSequence = [measures]
    return [groups]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"PixelSpacing": [0.5, 0.25]}, {"x": 0.25, "y": 0.5, "at": "patient"}),
        ({"ImagerPixelSpacing": [0.2, 0.2]}, {"x": 0.2, "y": 0.2, "at": "detector"}),
        ({"PixelSpacing": [1, 2], "ImagerPixelSpacing": [3, 3]}, {"x": 2, "y": 1, "at": "patient"}),
        ({"SharedFunctionalGroupsSequence": shared([0.7, 0.7])}, {"x": 0.7, "y": 0.7, "at": "patient"}),
        ({"PixelSpacing": [0, 0]}, None),
        ({}, None),
    ],
)
def test_a_dicoms_spacing(tmp_path, extra, expected):
    path = write_dicom(tmp_path / "a.dcm", PIXELS, **extra)
    assert dicom.spacing_of_case({"path": str(path), "sha256": None}) == expected


def test_other_files_and_files_that_are_gone_have_none(tmp_path):
    path = write(tmp_path / "a.png", picture(0)[0])
    for one in (path, tmp_path / "gone.dcm"):
        assert dicom.spacing_of_case({"path": str(one), "sha256": None}) is None


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
    with pytest.raises(Unreadable, match="its header says 24 x 32 pixels of 1 values, not 32 x 24"):
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
    with pytest.raises(Unreadable, match=f"compressed as .*{name}.*not supported"):
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
