"""DICOM as devices, archives and anonymisers write it: headers out of the standard, objects that are no images."""

from __future__ import annotations

import random

import numpy as np
import pydicom
import pytest
from pydicom.dataelem import RawDataElement
from pydicom.dataset import Dataset
from pydicom.tag import Tag
from pydicom.uid import UID_dictionary

from core.studio.ingest import dicom, spacing
from core.studio.ingest.decode import read_image, read_raw
from core.studio.ingest.layouts import Entry
from core.studio.ingest.reader import read_all
from core.studio.ingest.studies import import_study
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
    assert spacing.of_header(dicom.header(tmp_path / "spacing_comma.dcm")) == {"x": 0.71, "y": 0.71, "at": "patient"}
    assert spacing.of_header(dicom.header(tmp_path / "spacing_one.dcm")) is None


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
    spacing.of_case({"path": str(tmp_path / "a.dcm"), "sha256": str(seed)})


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
    assert row["path"].endswith("seg.dcm") and "no image of a patient: Segmentation" in row["reason"]


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
            assert str(refused).startswith("a DICOM object that is no image of a patient: ")
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
    assert "no image of a patient" in taken(tmp_path / "a.dcm")[1]["a.dcm"]


def test_pixels_that_are_not_as_many_as_the_header_says(tmp_path):
    few = write_dicom(tmp_path / "few.dcm", RAMP, Rows=96)
    many = write_dicom(tmp_path / "many.dcm", np.stack([RAMP] * 3), NumberOfFrames=1)
    reasons = taken(few, many)[1]
    assert reasons["few.dcm"].startswith("cut short: ") and "pixels are for 3" in reasons["many.dcm"]


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
