"""Headers of valid files are changed where it must not matter, or to what cannot be meant: the picture comes back as it
was, or the file is left out by a sentence. Nothing else: no traceback, no other picture."""

from __future__ import annotations

import random
import struct
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pydicom
import pytest
import tifffile
from pydicom.datadict import DicomDictionary

from core.studio.ingest import tiff
from core.studio.ingest.decode import read_image
from core.studio.ingest.layouts import BadFolder, Entry, read_layout
from core.studio.ingest.reader import read_all
from tests.conftest import picture, write
from tests.studio.ingest.dicoms import write_dicom
from tests.studio.ingest.test_dicom import GONE, M12, ODD, PICTURES, RAMP, coded, element, plain, raw

COLOUR = picture(5)[0]
# Elements whose valid values change a picture, or say that the file is none: they are only given values of ODD.
MEANT = {"SOPClassUID", "Modality", "ImageType", "SegmentSequence", "StructureSetROISequence", "ContentSequence",
         "WaveformSequence", "DoseGridScaling", "GraphicAnnotationSequence", "DirectoryRecordSequence", "BeamSequence",
         "SpecificCharacterSet", "SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"}  # fmt: skip
OTHERS = [(tag, row[4]) for tag, row in DicomDictionary.items()
          if 0x0008 <= tag >> 16 < 0x7FE0 and tag >> 16 != 0x0028 and row[4] not in MEANT and tag & 0xFFFF]  # fmt: skip
KINDS = ["UN", "LO", "DS", "IS", "US", "UI", "PN", "DA", "SQ", "OB", "FD"]


def garbage(draw: random.Random, most: int = 40) -> bytes:
    return bytes(draw.randrange(256) for _ in range(2 * draw.randint(0, most // 2)))


def dicoms(folder: Path) -> list[Path]:
    files = [write_dicom(folder / "grey.dcm", RAMP, **M12), write_dicom(folder / "colour.dcm", COLOUR)]
    for syntax in ("JPEGLosslessProcess14_1", "JPEG2000Lossless", "RLELossless"):
        files.append(coded(plain(folder / "plain.dcm", PICTURES["grey 12"], "grey 12"), syntax))
    return files


def odd_dicom(source: Path, target: Path, draw: random.Random) -> None:
    ds = pydicom.dcmread(source)
    grey, compressed = ds.SamplesPerPixel == 1, ds.file_meta.TransferSyntaxUID.is_encapsulated
    for _ in range(draw.randint(1, 5)):
        kind = draw.choice(["other", "odd", "gone", "bytes"])
        if kind == "other":
            tag, _ = draw.choice(OTHERS)
            ds[tag] = raw(tag, garbage(draw))
        elif kind == "odd" and grey:
            keyword = draw.choice(sorted(ODD))
            ds[keyword] = element(keyword, draw.choice(ODD[keyword]))
        elif kind == "gone" and grey and not compressed:
            ds.pop(draw.choice(GONE), None)
    ds.save_as(target)
    data = bytearray(target.read_bytes())
    if draw.random() < 0.3:  # a preamble or a kind of element that is not one
        at = draw.randrange(128) if draw.random() < 0.5 else data.find(draw.choice(KINDS).encode(), 132, 2000)
        if at >= 0:
            data[at] ^= 1 << draw.randrange(8)
    target.write_bytes(data)


def tiffs(folder: Path) -> list[Path]:
    forms = {"grey": (RAMP, {}), "colour": (COLOUR, {"photometric": "rgb"}), "zip": (RAMP, {"compression": "zlib"})}
    for name, (pixels, options) in forms.items():
        tifffile.imwrite(
            folder / f"{name}.tif", pixels, **options, extratags=[(65000 + i, "H", 1, i, True) for i in range(4)]
        )
    return [folder / f"{name}.tif" for name in forms]


def odd_tiff(source: Path, target: Path, draw: random.Random) -> None:
    data = bytearray(source.read_bytes())
    [at] = struct.unpack_from("<I", data, 4)
    [count] = struct.unpack_from("<H", data, at)
    for _ in range(draw.randint(1, 3)):
        place = at + 2 + 12 * draw.randrange(count)
        [tag] = struct.unpack_from("<H", data, place)
        if tag not in tiff._NEEDED | {330}:
            data[place + 2 : place + 12] = bytes(draw.randrange(256) for _ in range(10))
        else:  # to what no reader could mean
            data[place + 2 : place + 4] = struct.pack("<H", draw.choice([0, 99, 65535]))
    target.write_bytes(data)


def pngs(folder: Path) -> list[Path]:
    return [
        write(folder / "colour.png", COLOUR),
        write(folder / "grey.png", RAMP),
        write(folder / "deep.png", COLOUR * np.uint16(257)),
    ]


def odd_png(source: Path, target: Path, draw: random.Random) -> None:
    data = bytearray(source.read_bytes())
    kind = draw.choice(["chunk", "head", "tail", "cut"])
    if kind == "chunk":
        name = draw.choice([b"tEXt", b"iTXt", b"zTXt", b"iCCP", b"gAMA", b"cHRM", b"pHYs", b"tIME", b"prIv", b"sBIT"])
        body = garbage(draw)
        data[33:33] = struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    elif kind == "head":  # its checksum no longer fits
        data[draw.randrange(8, 33)] ^= 1 << draw.randrange(8)
    elif kind == "tail":
        data += garbage(draw)
    else:
        del data[draw.randrange(40, len(data) - 20) :]
    target.write_bytes(data)


PICTURES_OF = {"dicom": (dicoms, odd_dicom), "tiff": (tiffs, odd_tiff), "png": (pngs, odd_png)}
TABLE = [("path", "split", "label"), *((f"n{i}.png", "train", "normal") for i in range(6)),
         *((f"a{i}.png", "test", "abnormal") for i in range(6))]  # fmt: skip


def odd_table(target: Path, draw: random.Random) -> None:
    """A table whose columns are called, ordered, quoted or separated in another way, or encoded."""
    rows = [list(row) for row in TABLE]
    order = draw.sample(range(3), 3)
    rows = [[row[i] for i in order] for row in rows]
    if draw.random() < 0.5:
        place = draw.randrange(3)
        rows[0][place] = draw.choice(
            [rows[0][place].upper(), f" {rows[0][place]} ", "", "x", "\0", "é", rows[0][place - 1]]
        )
    between, quote = draw.choice(",,,;\t|"), draw.choice(["", "", '"', "'"])
    text = draw.choice(["\n", "\r\n"]).join(between.join(f"{quote}{cell}{quote}" for cell in row) for row in rows)
    data = text.encode(draw.choice(["utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    target.write_bytes(data)


def changed_tables(folder: Path, seed: int) -> str:
    odd_table(folder / "table.csv", random.Random(seed))
    try:
        entries = list(read_layout(folder / "table.csv", "table")[1])
    except BadFolder:
        return "refused"
    for entry in entries:  # the head of a table alone was changed: no image of a lesion is one to learn from
        if (
            not entry.problem
            and not getattr(entry, "doubt", None)
            and entry.path.name.startswith("a")
            and entry.path.name[1:2].isdigit()
        ):
            assert entry.label != "normal" or entry.split == "test", (seed, entry)
    return "read"


def changed_pictures(files: list[Path], wanted: list[np.ndarray], odd: Callable, folder: Path, seed: int) -> str:
    draw = random.Random(seed)
    number = draw.randrange(len(files))
    target = folder / f"odd{files[number].suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        odd(files[number], target, draw)
        found, rejected = read_all([Entry(target)], None)
    if not found:
        assert rejected[0]["reason"] and "it cannot be decoded" not in rejected[0]["reason"], (seed, files[number].name)
        return "refused"
    image = read_image(target)
    assert image.shape == wanted[number].shape, (seed, files[number].name, image.shape)
    assert np.abs(image.astype(int) - wanted[number]).mean() < 3, (seed, files[number].name)
    return "read"


def fuzz(folder: Path, kind: str, seconds: float) -> Counter[str]:
    """Counts what was read and refused of one kind of file; the number of an input that fails is in the assertion."""
    counts, end, seed = Counter[str](), time.monotonic() + seconds, 0
    if kind != "table":
        make, odd = PICTURES_OF[kind]
        (folder / "valid").mkdir()
        files = make(folder / "valid")
        wanted = [read_image(file) for file in files]
    while time.monotonic() < end or seed < 20:
        one = changed_tables(folder, seed) if kind == "table" else changed_pictures(files, wanted, odd, folder, seed)
        counts[one] += 1
        seed += 1
    return counts


@pytest.mark.long
@pytest.mark.parametrize("kind", [*PICTURES_OF, "table"])
def test_odd_headers(tmp_path, kind):
    assert fuzz(tmp_path, kind, 4)["read"] > 0


@pytest.mark.longest
@pytest.mark.timeout(900)
def test_odd_headers_for_ten_minutes(tmp_path):
    for kind in (*PICTURES_OF, "table"):
        (tmp_path / kind).mkdir()
        assert fuzz(tmp_path / kind, kind, 150)["read"] > 0
