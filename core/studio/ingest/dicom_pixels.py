"""Decodes the pixels of DICOM images, checks them against the header, and converts them for display."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from core.studio.ingest import own_process
from core.studio.ingest.dicom import (
    GREY,
    PALETTE,
    Form,
    drawn_size,
    entries_of,
    integer_of,
    items,
    lookup,
    numbers,
    open_image,
    stored,
    stream_colours,
    text,
    window,
)
from core.studio.ingest.unreadable import Unreadable

STRIP = 2**21  # pixels that are converted at a time
_ASKED = ("Rows", "Columns", "SamplesPerPixel", "PhotometricInterpretation", "PlanarConfiguration", "BitsAllocated",
          "BitsStored", "HighBit", "PixelRepresentation")  # fmt: skip


def _frame(path: Path, frame: int) -> tuple[np.ndarray, Any, Form]:
    """Returns (stored values of a frame, dataset with the tables and windows of the frame, pixel format)."""
    from pydicom.uid import JPEGBaseline8Bit, JPEGExtended12Bit

    ds, form, _ = open_image(path, pixels=True)
    if not 0 <= frame < form.frames:
        raise Unreadable(f"it has no frame {frame}")
    syntax = ds.file_meta.TransferSyntaxUID
    stream = _checked_stream(ds, form, frame) if syntax.is_encapsulated else b""
    named = stream_colours(stream) if syntax in (JPEGBaseline8Bit, JPEGExtended12Bit) and form.samples == 3 else None
    if named and (named == "RGB") != (form.photometric == "RGB"):
        ds.PhotometricInterpretation = named
    try:
        values = _decoded(ds, form, stream, frame)
    except NotImplementedError:
        raise Unreadable(f"compressed as {syntax.name}, which is not supported") from None
    except MemoryError:
        raise
    except Exception:
        how = f" (compressed as {syntax.name})" if syntax.is_encapsulated else ""
        raise Unreadable(f"its pixels cannot be decoded: damaged or cut short{how}") from None
    values = values.reshape(values.shape[1:]) if values.ndim == 3 + (form.samples > 1) else values
    if values.shape[:2] != (form.rows, form.columns) or values.ndim != 2 + (form.samples > 1):
        raise Unreadable(f"its header says {form.columns} x {form.rows} pixels, but {values.shape} were decoded")
    for groups, index in (("SharedFunctionalGroupsSequence", 0), ("PerFrameFunctionalGroupsSequence", frame)):
        for group in items(ds, groups)[index : index + 1]:
            for name in ("PixelValueTransformationSequence", "FrameVOILUTSequence"):
                for item in items(group, name):
                    for element in item:
                        ds[element.tag] = element
    return values, ds, form


def _decoded(ds: Any, form: Form, stream: bytes, frame: int) -> np.ndarray:
    """Decodes a frame. GDCM runs in a separate process, because it may crash on damaged data."""
    from pydicom import uid
    from pydicom.pixels import pixel_array

    syntax = ds.file_meta.TransferSyntaxUID
    gdcm = syntax in (*uid.JPEGTransferSyntaxes, *uid.JPEGLSTransferSyntaxes)
    pillow = syntax == uid.JPEGBaseline8Bit or (syntax == uid.JPEGExtended12Bit and form.stored <= 8)
    if gdcm and not pillow:
        if syntax == uid.JPEGExtended12Bit and form.samples > 1:
            raise NotImplementedError
        tags = {k: ds.get(k) for k in _ASKED if k in ds} | {"TransferSyntaxUID": str(syntax), "NumberOfFrames": 1}
        data, kind, shape = own_process.decode(tags, stream)
        return np.frombuffer(data, kind).reshape(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plugin = "pylibjpeg" if syntax in uid.JPEG2000TransferSyntaxes else "pillow" if pillow else ""
        return pixel_array(ds, index=frame if form.frames > 1 else None, decoding_plugin=plugin)


def _checked_stream(ds: Any, form: Form, frame: int) -> bytes:
    """Returns a compressed frame. Raises Unreadable if the frame is missing or its size differs from the header."""
    from pydicom.encaps import get_frame

    try:
        stream = get_frame(ds.PixelData, frame, number_of_frames=form.frames)
    except Exception:
        stream = None
    if not stream:
        raise Unreadable(f"cut short: its header says {form.frames} frames, frame {frame + 1} is missing or damaged")
    size = drawn_size(stream)
    if size and size != (form.columns, form.rows, form.samples):
        described = "{} x {} pixels of {} values".format
        raise Unreadable(f"its header says {described(form.columns, form.rows, form.samples)}, not {described(*size)}")
    return stream


def _padding(values: np.ndarray, ds: Any, form: Form) -> np.ndarray | None:
    """Returns the mask of padding pixels (PS3.3 C.7.5.1.1.2), or None if no pixel or every pixel is padding."""
    ends = []
    for keyword in ("PixelPaddingValue", "PixelPaddingRangeLimit"):
        end = integer_of(ds, keyword)
        if end is not None:
            top = 1 << form.allocated
            signed = values.dtype.kind == "i"
            ends.append(end - top if signed and end >= top // 2 else end + top if not signed and end < 0 else end)
    if not ends or "PixelPaddingValue" not in ds:
        return None
    is_padding = (values >= min(ends)) & (values <= max(ends))
    return is_padding if is_padding.any() and not is_padding.all() else None


def _modality(ds: Any) -> tuple[Callable[[np.ndarray], np.ndarray], bool]:
    """Returns (function from stored values to float32 in the units of the modality, whether it is linear)."""
    table = lookup(ds, "ModalityLUTSequence", False)
    if table is not None:
        first, entries, _ = table
        return lambda v: entries[np.clip(v.astype(np.int64) - first, 0, len(entries) - 1)].astype(np.float32), False
    slope = (numbers(ds, "RescaleSlope", 1) or [1.0])[0] or 1.0
    intercept = (numbers(ds, "RescaleIntercept", 1) or [0.0])[0]
    if (slope, intercept) == (1, 0):
        return lambda rows: rows.astype(np.float32), True
    return lambda rows: (rows * slope + intercept).astype(np.float32), True


def _line(low: float, high: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rows: (rows.astype(np.float64) - low) / max(high - low, 1e-12)


def _voi(ds: Any) -> Callable[[np.ndarray], np.ndarray] | None:
    """Returns the function from modality units to brightness (0 to 1), or None without a VOI LUT and window."""
    table = lookup(ds, "VOILUTSequence", True)
    if table is not None:
        first, entries, bits = table
        top = max((1 << bits) - 1, int(entries.max()))
        return lambda rows: entries[np.clip(rows.astype(np.int64) - first, 0, len(entries) - 1)] / top
    range_shown = window(ds)
    if range_shown is None:
        return None
    centre, width = range_shown
    function = text(ds, "VOILUTFunction").upper()
    if function == "SIGMOID":
        return lambda rows: 1 / (1 + np.exp(np.clip(-4 * (rows - centre) / width, -700, 700)))
    if function != "LINEAR_EXACT" and width >= 1:  # PS3.3 C.11.2.1.2: from the centre of the first value to the last
        centre, width = centre - 0.5, width - 1
        if not width:
            return lambda rows: (rows > centre).astype(np.float64)
    return lambda rows: (rows - centre) / width + 0.5


def read_values(path: Path, frame: int = 0) -> np.ndarray:
    """Reads a grey frame as float32 `(H, W)` in the modality's units, or a colour frame as uint8 or uint16 `(H, W, 3)`.

    Padding pixels are set to the minimum of the other pixels, so that they do not affect the scale.
    """
    values, ds, form = _frame(path, frame)
    if form.photometric not in GREY:
        return _coloured(values, ds, form)
    out, (units, _) = np.empty(values.shape, np.float32), _modality(ds)
    for strip in _strips(values):
        out[strip] = units(values[strip])
    padding = _padding(values, ds, form)
    if padding is not None:
        out[padding] = out[~padding].min()
    return out


def _coloured(values: np.ndarray, ds: Any, form: Form) -> np.ndarray:
    if form.photometric != PALETTE:
        return values[..., :3]
    colours = []
    for colour in ("Red", "Green", "Blue"):
        descriptor = numbers(ds, f"{colour}PaletteColorLookupTableDescriptor", 3)
        data = stored(ds, f"{colour}PaletteColorLookupTableData")
        entries = (
            entries_of(ds, data, int(descriptor[0]) or 65536)
            if descriptor and data is not None
            else np.empty(0, np.int64)
        )
        if not len(entries):
            raise Unreadable(f"the {colour.lower()} table of its colour palette is not readable")
        bits = 16 if int(descriptor[2]) > 8 and entries.max() > 255 else 8  # some files declare 16 bits but contain 8
        indices = np.clip(values.astype(np.int64) - int(descriptor[1]), 0, len(entries) - 1)
        colours.append((entries[indices] >> (bits - 8)).astype(np.uint8))
    return np.stack(colours, -1)


def _strips(values: np.ndarray) -> list[slice]:
    """Splits an image into strips of about STRIP pixels, so that double-precision copies of a strip stay small."""
    rows = max(1, STRIP // values.shape[1])
    return [slice(start, start + rows) for start in range(0, len(values), rows)]


def read_display(path: Path, frame: int = 0, scale: tuple[float, float] | None = None) -> np.ndarray:
    """Reads a frame as a viewer displays it, uint8 `(H, W, 3)`.

    The modality LUT is applied first, then the VOI LUT or window. MONOCHROME1 is inverted, and padding is black. If the
    file has no VOI LUT or window, the values in `scale` (by default, the minimum and maximum) become 0 and 255.
    """
    values, ds, form = _frame(path, frame)
    if form.photometric not in GREY:
        colours = _coloured(values, ds, form)
        deep = 0 if colours.dtype == np.uint8 else max(form.stored - 8, 0)
        return np.ascontiguousarray((colours >> deep).astype(np.uint8))
    (units, linear), voi, padding = _modality(ds), _voi(ds), _padding(values, ds, form)
    if voi is None:
        voi = _line(*(scale or _ends(values, units, linear, padding)))

    def look(stored_values: np.ndarray) -> np.ndarray:
        grey = np.clip(np.nan_to_num(voi(units(stored_values))), 0, 1)
        return ((1 - grey if form.photometric == "MONOCHROME1" else grey) * 255).round().astype(np.uint8)

    display = np.empty(values.shape, np.uint8)
    if values.dtype.itemsize <= 2 and values.size > 1 << 16:  # converts each possible value once instead of each pixel
        kind = np.dtype(f"u{values.dtype.itemsize}")
        table = look(np.arange(np.iinfo(kind).max + 1, dtype=kind).view(values.dtype))
        np.take(table, values.view(kind), out=display, mode="clip")
    else:
        for strip in _strips(values):
            display[strip] = look(values[strip])
    if padding is not None:
        display[padding] = 0
    return np.repeat(display[..., None], 3, 2)


def _ends(
    values: np.ndarray, units: Callable[[np.ndarray], np.ndarray], linear: bool, padding: np.ndarray | None
) -> tuple[float, float]:
    """Returns the finite minimum and maximum outside the padding. Raises Unreadable if no value is finite."""
    if linear and values.dtype.kind in "iu":
        inside = values if padding is None else values[~padding]
        ends = units(np.array([inside.min(), inside.max()])).tolist()
        return min(ends), max(ends)
    ends = []
    for strip in _strips(values):
        rows = units(values[strip])
        good = np.isfinite(rows) if padding is None else np.isfinite(rows) & ~padding[strip]
        if good.any():
            ends.append((float(rows[good].min()), float(rows[good].max())))
    if not ends:
        raise Unreadable("each of its values is NaN or infinite")
    return min(least for least, _ in ends), max(most for _, most in ends)
