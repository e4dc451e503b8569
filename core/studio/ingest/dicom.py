"""Reads DICOM headers, including faulty headers written by devices, archives and anonymisation tools.

Empty and invalid elements count as missing. Missing elements that a decoder needs are inferred from the rest of the
file, and `oddities` lists the faults. Objects that are not images of a patient are refused.
"""

from __future__ import annotations

import contextlib
import functools
import math
import struct
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from core.studio.ingest.unreadable import Unreadable, limit

UNDEFINED = 0xFFFFFFFF  # length of an element that ends with a delimiter
DEFERRED = 1 << 16  # bytes; larger elements stay on disk if only the header is needed
SUFFIXES = (".dcm", ".dicom", ".ima")
_DATA = ("PixelData", "FloatPixelData", "DoubleFloatPixelData")
GREY = ("MONOCHROME1", "MONOCHROME2")
COLOURS = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_PARTIAL_420", "YBR_ICT", "YBR_RCT")
PALETTE = "PALETTE COLOR"
# Modalities (PS3.3 C.7.3.1.1.1) of objects that contain no images or are derived from images.
_NO_IMAGES = {
    "ANN", "ASMT", "AU", "DOC", "ECG", "EEG", "EMG", "EPS", "FID", "HD", "KO", "M3D", "PLAN", "PR", "REG", "RESP",
    "RTDOSE", "RTIMAGE", "RTPLAN", "RTRECORD", "RTSTRUCT", "RWV", "SEG", "SMR", "SR", "STAIN", "TEXTUREMAP",
}  # fmt: skip
# Elements of objects other than images, which identify them if their SOP class is unknown.
_DERIVED = ("SegmentSequence", "StructureSetROISequence", "ContentSequence", "WaveformSequence", "DoseGridScaling",
            "GraphicAnnotationSequence", "DirectoryRecordSequence", "BeamSequence")  # fmt: skip
# Prefixes of the values of ImageType that mark pictures without diagnostic content, with the kind of each.
_OVERVIEWS = {"LOCALI": "an overview image (localizer)", "SCOUT": "an overview image (scout)",
              "TOPOGRAM": "an overview image (topogram)", "OVERVIEW": "the overview of a slide",
              "LABEL": "the label of a slide", "THUMBNAIL": "a thumbnail", "DOSE_INFO": "a dose report"}  # fmt: skip


def is_dicom(path: Path) -> bool:
    """Returns whether a file is DICOM, judged by its preamble, suffix or first element."""
    with path.open("rb") as file:
        head = file.read(132)
    if head[128:] == b"DICM":
        return True
    return len(head) > 8 and (path.suffix.lower() in SUFFIXES or _starts_with_an_element(head, path.stat().st_size))


def _starts_with_an_element(head: bytes, size: int) -> bool:
    """Returns whether a file of `size` bytes without a preamble begins with an element of group 2 or 8."""
    for order in "<>":
        group, element = struct.unpack(f"{order}HH", head[:4])
        if group in (2, 8) and element < 0x100:
            explicit = head[4:6].isalpha() and head[4:6].isupper()
            return explicit or (order == "<" and 0 < struct.unpack("<I", head[4:8])[0] <= min(size, 1024))
    return False


def text(ds: Any, keyword: str) -> str:
    """Returns an element as one line of text, or "" if it is missing. Several values are separated by backslashes."""
    value = _value(ds, keyword)
    values = value if isinstance(value, list) else [value]
    return "\\".join(" ".join(str("" if v is None else v).replace("\0", " ").split()) for v in values)


def numbers(ds: Any, keyword: str, count: int | None = None) -> list[float]:
    """Returns the numeric values of an element. A decimal comma is read as a decimal point.

    Returns [] if a value is missing or not a finite number, or if the number of values differs from `count`.
    """
    value = _value(ds, keyword)
    values = []
    for item in value if isinstance(value, list) else [value]:
        try:
            values.append(float(item if isinstance(item, (int, float)) else str(item).strip(" \0").replace(",", ".")))
        except (TypeError, ValueError, OverflowError):
            return []
    return values if all(map(math.isfinite, values)) and (count is None or len(values) == count) else []


def integer_of(ds: Any, keyword: str) -> int | None:
    """Returns the first numeric value of an element as an integer, or None if it is missing or not an integer."""
    values = numbers(ds, keyword)
    return int(values[0]) if values and values[0].is_integer() and abs(values[0]) < 2**53 else None


def _value(ds: Any, keyword: str) -> Any:
    """Returns an element's value (a list if it has several, text if pydicom rejects it), or None if it is missing."""
    value = stored(ds, keyword)
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str) and "\\" in value:
        return value.split("\\")
    return list(value) if isinstance(value, (list, tuple)) or type(value).__name__ == "MultiValue" else value


def stored(ds: Any, keyword: str) -> Any:
    """Returns the parsed value of an element, its raw bytes if pydicom cannot parse it, or None if it is missing."""
    try:
        return ds.get(keyword)
    except Exception:  # pydicom raises many kinds of errors if a value does not fit its type
        with contextlib.suppress(Exception):
            return getattr(ds.get_item(keyword), "value", None)
    return None


def items(ds: Any, keyword: str) -> list[Any]:
    """Returns the items of a sequence element, or [] if the element is missing or not a sequence."""
    try:
        return [item for item in ds.get(keyword) or () if hasattr(item, "get")]
    except Exception:  # pydicom raises many kinds of errors
        return []


class Form(NamedTuple):
    """Pixel format of an image. A pixel has `samples` values of `allocated` bits, of which `stored` bits are used."""

    rows: int
    columns: int
    samples: int
    photometric: str
    allocated: int
    stored: int
    frames: int


def open_image(path: Path, pixels: bool = False) -> tuple[Any, Form, list[str]]:
    """Opens a DICOM image; returns (dataset with repaired pixel elements, pixel format, header errors).

    Unless `pixels` is True, large elements stay on disk. Raises Unreadable if the file is not a readable patient image.
    """
    import pydicom

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ds = pydicom.dcmread(path, force=True, defer_size=None if pixels else DEFERRED)
        except Exception as error:  # pydicom raises many kinds of errors on a damaged file
            if isinstance(error, OSError) and error.errno:
                raise
            raise Unreadable("not a readable DICOM file, or damaged") from None
        other = _other_object(ds)
        if other:
            raise Unreadable(f"a DICOM object that is not an image of a patient: {other}")
        return ds, *_mended(ds)


def _other_object(ds: Any) -> str | None:
    """Returns the kind of an object that is not an image of a patient, or None for an image."""
    import pydicom

    uid = text(ds, "SOPClassUID") or text(getattr(ds, "file_meta", {}), "MediaStorageSOPClassUID")
    uid_entry = pydicom.uid.UID_dictionary.get(uid)
    name = uid_entry[0].rpartition(" Storage")[0] if uid_entry and uid_entry[1] == "SOP Class" else ""
    if name and ("Image" not in name or "RT Image" in name) and name != "Enhanced US Volume":
        return name
    modality = text(ds, "Modality").upper()
    if modality in _NO_IMAGES:
        return f"modality {modality}"
    derived = next((keyword for keyword in _DERIVED if keyword in ds), None)
    if derived and not name:
        return f"it has a {pydicom.datadict.dictionary_description(derived)}"
    kinds = text(ds, "ImageType").upper().split("\\")[2:]
    return next((label for kind in kinds for start, label in _OVERVIEWS.items() if kind.startswith(start)), None)


def _mended(ds: Any) -> tuple[Form, list[str]]:
    """Sets missing elements that a decoder needs; returns the pixel format and the faults of the header."""
    odd: list[str] = []

    def given(keyword: str, usual: int | str, fits: Callable[[Any], bool]) -> Any:
        value = text(ds, keyword).upper() if isinstance(usual, str) else integer_of(ds, keyword)
        if value not in (None, "") and fits(value):
            if isinstance(usual, int) and _value(ds, keyword) != value:
                setattr(ds, keyword, value)
            return value
        odd.append(f"{_called(keyword)} is {'missing' if value in (None, '') else value}: {usual} is assumed")
        setattr(ds, keyword, usual)
        return usual

    rows, columns = (integer_of(ds, keyword) or 0 for keyword in ("Rows", "Columns"))
    if rows < 1 or columns < 1:
        raise Unreadable("a DICOM file without pixels (no rows and columns)")
    limit(columns, rows)
    data = next((keyword for keyword in _DATA if keyword in ds), None)
    if data is None:
        raise Unreadable("a DICOM file without pixels (no pixel data)")
    frames = integer_of(ds, "NumberOfFrames") or 1
    if frames < 1 or ("NumberOfFrames" in ds and integer_of(ds, "NumberOfFrames") != frames):
        frames = max(frames, 1)
        ds.NumberOfFrames = frames
    _name_syntax(ds)
    coded = ds.file_meta.TransferSyntaxUID.is_encapsulated
    length = 0 if coded else _length(ds, data)
    pixel_bytes = length / (rows * columns * frames)  # bytes per pixel, including padding to an even length
    tables = "RedPaletteColorLookupTableData" in ds
    photometric = text(ds, "PhotometricInterpretation").upper()
    colour = photometric in COLOURS or (not photometric and not tables and pixel_bytes >= 3 and pixel_bytes % 3 < 0.5)
    samples = given("SamplesPerPixel", 3 if colour else 1, lambda n: n in (1, 3, 4))
    usual = PALETTE if tables else ("MONOCHROME2", "RGB")[samples > 1]
    photometric = given("PhotometricInterpretation", usual, lambda name: True)
    if photometric not in (*GREY, *COLOURS, PALETTE) or (samples > 1) != (photometric in COLOURS):
        raise Unreadable(f"its pixels have {samples} values each as {photometric}, which is not supported")
    if samples > 1:
        given("PlanarConfiguration", 0, lambda n: n in (0, 1))
    if data == "PixelData":
        deep = (integer_of(ds, "BitsStored") or 0) > 8 or pixel_bytes / samples >= 2
        allocated = given("BitsAllocated", 16 if deep else 8, lambda n: n in (1, 8, 16, 32))
        stored = given("BitsStored", allocated, lambda n: 0 < n <= allocated)
        given("HighBit", stored - 1, lambda n: stored - 1 <= n < allocated)
        given("PixelRepresentation", 0, lambda n: n in (0, 1))
    else:
        allocated = stored = ds.BitsAllocated = 32 if data == "FloatPixelData" else 64
    expected = (rows * columns * samples * allocated * frames + 7) // 8
    if photometric == "YBR_FULL_422":
        expected = expected * 2 // 3
    if not coded and not expected <= length < expected + expected // frames:
        syntax = _compressed(ds)
        if syntax is None:
            more = length // max(expected // frames, 1)
            says = f"its header says {frames} frames of {columns} x {rows} pixels, but it contains {more}"
            raise Unreadable(f"cut short: {says}" if length < expected else says)
        odd.append(f"{ds.file_meta.TransferSyntaxUID.name} is not how its pixels are stored; {syntax.name} is assumed")
        ds.file_meta.TransferSyntaxUID = syntax
    return Form(rows, columns, samples, photometric, allocated, stored, frames), odd


def _called(keyword: str) -> str:
    from pydicom.datadict import dictionary_description

    return dictionary_description(keyword)


def _length(ds: Any, keyword: str) -> int:
    """Returns the length in bytes of the pixel data, which may still be on disk."""
    raw = ds.get_item(keyword)
    length = getattr(raw, "length", None)
    return int(length) if length not in (None, UNDEFINED) and raw.value is None else len(stored(ds, keyword) or b"")


def _name_syntax(ds: Any) -> None:
    """Sets the transfer syntax of a file if its meta header is missing or does not name the syntax."""
    from pydicom.dataset import FileMetaDataset
    from pydicom.uid import UID, ExplicitVRBigEndian, ExplicitVRLittleEndian, ImplicitVRLittleEndian

    meta = getattr(ds, "file_meta", None)
    if meta is None:
        meta = ds.file_meta = FileMetaDataset()
    named = text(meta, "TransferSyntaxUID")
    if not named:
        implicit, little = ds.original_encoding
        plain = ImplicitVRLittleEndian if implicit else ExplicitVRLittleEndian if little else ExplicitVRBigEndian
        meta.TransferSyntaxUID = plain
    elif not UID(named).is_transfer_syntax:
        raise Unreadable(f"its transfer syntax {named} is unknown")


def _compressed(ds: Any) -> Any:
    """Returns the transfer syntax of pixel data by the first bytes, or None if it is uncompressed or unknown."""
    from pydicom.encaps import get_frame

    value = stored(ds, "PixelData")
    if not isinstance(value, bytes) or value[:4] != b"\xfe\xff\x00\xe0":
        return None
    with contextlib.suppress(Exception):  # pydicom raises many kinds of errors on damaged fragments
        return _codec(get_frame(value, 0, number_of_frames=1))
    return None


def _codec(stream: bytes) -> Any:
    """Returns the transfer syntax of a compressed frame by its first markers, or None if it is unknown."""
    from pydicom import uid

    if stream[:4] == b"\xff\x4f\xff\x51":
        return uid.JPEG2000
    kinds = {0xC0: uid.JPEGBaseline8Bit, 0xC1: uid.JPEGExtended12Bit, 0xC3: uid.JPEGLossless, 0xF7: uid.JPEGLSLossless}
    return next((kinds[marker] for marker, _ in _segments(stream) if marker in kinds), None)


def _segments(stream: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields (marker, body) for each segment of a JPEG stream, up to the start of the pixels."""
    at = 2
    while stream[:2] == b"\xff\xd8" and at + 4 <= len(stream) and stream[at] == 0xFF:
        marker, length = stream[at + 1], struct.unpack(">H", stream[at + 2 : at + 4])[0]
        if marker == 0xFF:  # a fill byte
            at += 1
            continue
        yield marker, stream[at + 4 : at + 2 + length]
        if marker == 0xDA or length < 2:
            return
        at += 2 + length


def drawn_size(stream: bytes) -> tuple[int, int, int] | None:
    """Returns (columns, rows, values per pixel) of a JPEG, JPEG-LS or JPEG 2000 stream, or None for other streams."""
    if stream[:4] == b"\xff\x4f\xff\x51" and len(stream) >= 42:
        x_end, y_end, x_start, y_start = struct.unpack(">4I", stream[8:24])
        return x_end - x_start, y_end - y_start, struct.unpack(">H", stream[40:42])[0]
    for marker, body in _segments(stream):
        if (0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC)) or marker == 0xF7:
            rows, columns, samples = struct.unpack(">HHB", body[1:6])
            return columns, rows, samples
    return None


def stream_colours(stream: bytes) -> str | None:
    """Returns the colour space ("RGB" or "YBR_FULL") of a lossy JPEG stream with three components, or None if unknown.

    An Adobe marker states the colour space; JFIF or components of different resolutions imply YCbCr.
    """
    named = None
    for marker, body in _segments(stream):
        if marker == 0xEE and body[:5] == b"Adobe" and len(body) >= 12:
            return "YBR_FULL" if body[11] else "RGB"
        if marker == 0xE0 and body[:4] == b"JFIF":
            named = "YBR_FULL"
        if marker in (0xC0, 0xC1) and len(body) >= 15:
            named = "RGB" if body[6:15:3] == b"RGB" else named or ("YBR_FULL" if len(set(body[7:15:3])) > 1 else None)
    return named


def _odd_values(ds: Any) -> list[str]:
    """Describes the values that are present but invalid, and therefore ignored."""
    wrong = [
        (name, text(ds, name))
        for name, count in (("WindowWidth", None), ("WindowCenter", None), ("RescaleSlope", 1),
                            ("RescaleIntercept", 1), ("PixelSpacing", 2), ("ImagerPixelSpacing", 2),
                            ("ImagePositionPatient", 3), ("ImageOrientationPatient", 6), ("InstanceNumber", 1),
                            ("NumberOfFrames", 1))
        if text(ds, name).strip("\\ ") and not numbers(ds, name, count)
    ]  # fmt: skip
    if numbers(ds, "WindowWidth") and window(ds) is None:
        wrong.append(("WindowWidth", text(ds, "WindowWidth")))
    if numbers(ds, "RescaleSlope", 1) == [0.0]:
        wrong.append(("RescaleSlope", "0"))
    for name in ("PixelSpacing", "ImagerPixelSpacing"):
        if any(v <= 0 for v in numbers(ds, name, 2)):
            wrong.append((name, text(ds, name)))
    lookups = (("VOILUTSequence", True), ("ModalityLUTSequence", False))
    wrong += [(k, "without a table") for k, voi in lookups if items(ds, k) and lookup(ds, k, voi) is None]
    return [f"{_called(name)} is {value[:40]!r} and is not used" for name, value in wrong]


def probe(path: Path) -> tuple[int, int, int, int, str | None]:
    """Returns (width, height, bits per value, number of frames, modality or None) of a DICOM image.

    Raises Unreadable if the file is not a readable image of a patient.
    """
    status = path.stat()
    return _probed(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=256)
def _probed(path: Path, changed: int, size: int) -> tuple[int, int, int, int, str | None]:
    ds, form, _ = open_image(path)
    bits = 8 if form.photometric == PALETTE else form.stored
    return form.columns, form.rows, bits, form.frames, text(ds, "Modality") or None


def header(path: Path) -> Any:
    """Returns the dataset of a DICOM image without pixel data. Raises Unreadable as `probe` does.

    The attribute `odd` of the dataset lists faults that do not prevent the display of the image.
    """
    ds, _, odd = open_image(path)
    for keyword in _DATA:
        if keyword in ds:
            del ds[keyword]
    ds.odd = odd + _odd_values(ds)
    return ds


def oddities(path: str, sha256: str | None) -> tuple[str, ...]:
    """Returns the faults of a file's DICOM header, or () for other formats. `sha256` identifies the file's content."""
    return _header_facts(path, sha256)[0]


def patient(ds: Any) -> str | None:
    """Returns the PatientID, preceded by its issuer if stated (PS3.3 C.7.1.1), or None if there is no PatientID."""
    number = text(ds, "PatientID")
    return f"{text(ds, 'IssuerOfPatientID')} {number}".strip() if number else None


def device(ds: Any) -> str | None:
    """Returns model, station, serial number and institution of the device as one text, or None if all are missing."""
    model = f"{text(ds, 'Manufacturer')} {text(ds, 'ManufacturerModelName')}".strip()
    words = (text(ds, name) for name in ("StationName", "DeviceSerialNumber", "InstitutionName"))
    return ", ".join(filter(None, (model, *words))) or None


def declares_text(ds: Any) -> bool:
    """Returns whether a header says that text is burned into the picture (BurnedInAnnotation, PS3.3 C.7.6.1)."""
    return text(ds, "BurnedInAnnotation").upper() == "YES"


def spacing(ds: Any, keyword: str = "PixelSpacing") -> tuple[float, float] | None:
    """Returns (row spacing, column spacing) in millimetres, or None if they are missing or not both positive."""
    distances = numbers(ds, keyword, 2)
    return (distances[0], distances[1]) if distances and min(distances) > 0 else None


def window(ds: Any) -> tuple[float, float] | None:
    """Returns (centre, width) of the first display window, or None if the header has no window of positive width."""
    pairs = zip(numbers(ds, "WindowCenter"), numbers(ds, "WindowWidth"), strict=False)
    return next((pair for pair in list(pairs)[:1] if pair[1] > 0), None)


def lookup(ds: Any, keyword: str, voi: bool) -> tuple[int, np.ndarray, int] | None:
    """Returns (first input value, entries, bits per entry) of a sequence's first valid lookup table, or None.

    `voi` says whether the table is a VOI LUT, whose input values may be negative because of the rescale intercept.
    """
    for item in items(ds, keyword):
        descriptor = numbers(item, "LUTDescriptor", 3)
        data = stored(item, "LUTData")
        if not descriptor or data is None:
            continue
        entries = entries_of(ds, data, int(descriptor[0]) or 65536)
        if not len(entries):
            continue
        first, bits = int(descriptor[1]), int(descriptor[2]) if 1 <= descriptor[2] <= 16 else 16
        signed = integer_of(ds, "PixelRepresentation") == 1 or (
            voi and (numbers(ds, "RescaleIntercept", 1) or [0])[0] < 0
        )
        return first - 65536 if first > 32767 and signed else first, entries, bits
    return None


def entries_of(ds: Any, data: Any, count: int) -> np.ndarray:
    """Returns up to `count` entries of a lookup table. `data` holds numbers, or bytes of 8-bit or 16-bit entries."""
    if isinstance(data, (bytes, bytearray)):
        kind = np.uint8 if len(data) < 2 * count else np.dtype("<u2" if ds.original_encoding[1] is not False else ">u2")
        data = np.frombuffer(bytes(data)[: len(data) // np.dtype(kind).itemsize * np.dtype(kind).itemsize], kind)
    return np.atleast_1d(np.asarray(data)).astype(np.int64).ravel()[:count]


def has_window(ds: Any) -> bool:
    """Returns whether a header has a display window or a VOI LUT, for all frames or for single frames."""
    groups = [*items(ds, "SharedFunctionalGroupsSequence"), *items(ds, "PerFrameFunctionalGroupsSequence")]
    holders = [ds, *(lut for group in groups for lut in items(group, "FrameVOILUTSequence"))]
    return any(window(item) or lookup(ds if item is ds else item, "VOILUTSequence", True) for item in holders)


KEPT = 1024  # files whose faults and spacing are cached


class Spacing(TypedDict):
    """Pixel spacing along x and y in millimetres. `at` is "patient", or "detector" if it was measured on a detector."""

    x: float
    y: float
    at: str


def spacing_of_case(case: Mapping[str, Any]) -> Spacing | None:
    """Returns the pixel spacing of a case's file, or None if the file is missing, not DICOM or states no spacing."""
    return _header_facts(case["path"], case["sha256"])[1]


@functools.lru_cache(maxsize=KEPT)
def _header_facts(path: str, sha256: str | None) -> tuple[tuple[str, ...], Spacing | None]:
    """Returns (faults of the header, pixel spacing or None) of a DICOM file, or ((), None) for any other file.

    `sha256` is part of the cache key, because the file may be replaced.
    """
    try:
        ds = header(Path(path)) if is_dicom(Path(path)) else None
    except (OSError, Unreadable):
        ds = None
    return (tuple(ds.odd), spacing_of_header(ds)) if ds is not None else ((), None)


def spacing_of_header(ds: Any) -> Spacing | None:
    """Returns the spacing from PixelSpacing (PS3.3 10.7.1.1), else ImagerPixelSpacing, or None if both are missing."""
    groups = items(ds, "SharedFunctionalGroupsSequence")[:1]
    measures = next((item for group in groups for item in items(group, "PixelMeasuresSequence")), None)
    for source, name, at in (
        (ds, "PixelSpacing", "patient"),
        (measures, "PixelSpacing", "patient"),
        (ds, "ImagerPixelSpacing", "detector"),
    ):
        distances = spacing(source, name) if source is not None else None
        if distances:
            return {"x": distances[1], "y": distances[0], "at": at}  # the row spacing comes first
    return None
