"""DICOM through pydicom: modality LUT, VOI LUT or window, MONOCHROME1, colour spaces, frames."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from core.studio.ingest.unreadable import Unreadable, limit

STRIP = 2**21  # pixels


def is_dicom(path: Path) -> bool:
    """Tells a DICOM file by its preamble, or by its suffix (some devices leave the preamble out)."""
    with path.open("rb") as file:
        head = file.read(132)
    return head[128:] == b"DICM" or (path.suffix.lower() in (".dcm", ".dicom", ".ima") and len(head) > 8)


def _header(path: Path, pixels: bool):
    import pydicom

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ds = pydicom.dcmread(path, stop_before_pixels=not pixels, force=path.suffix.lower() != "")
            size = int(ds.get("Columns", 0) or 0), int(ds.get("Rows", 0) or 0)
    except Exception as error:  # pydicom raises many kinds on a damaged file
        raise Unreadable(f"not a readable DICOM: {error}") from None
    if 0 in size:
        raise Unreadable("a DICOM without pixels (it has no rows and columns)")
    limit(*size)
    return ds


def probe(path: Path) -> tuple[int, int, int, int, str | None]:
    """Reads (width, height, bits stored, frames, modality). Raises Unreadable if there are no pixels."""
    ds = _header(path, pixels=True)  # pydicom leaves pixel data on disk until asked for
    if not any(name in ds for name in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        raise Unreadable("a DICOM without pixels (it has no pixel data)")
    frames = int(ds.get("NumberOfFrames", 1) or 1)
    return int(ds.Columns), int(ds.Rows), int(ds.get("BitsStored", 8) or 8), max(frames, 1), ds.get("Modality") or None


def header(path: Path):
    """Reads the dataset without its pixels. Raises Unreadable if it has no rows and columns."""
    return _header(path, pixels=False)


def patient(ds) -> str | None:
    """Returns the PatientID with who issued it (PS3.3 C.7.1.1), or None where a header has none."""
    number = str(ds.get("PatientID") or "").strip()
    issuer = str(ds.get("IssuerOfPatientID") or "").strip()
    return f"{issuer} {number}".strip() if number else None


def device(ds) -> str | None:
    """Returns which device took an image, and where, in its header's words (PS3.3 C.7.5.1); None if it names none."""
    model = f"{ds.get('Manufacturer') or ''} {ds.get('ManufacturerModelName') or ''}"
    words = (str(ds.get(name) or "") for name in ("StationName", "DeviceSerialNumber", "InstitutionName"))
    return ", ".join(filter(None, (" ".join(word.split()) for word in (model, *words)))) or None


def declares_text(ds) -> bool:
    """Returns whether a header says that text is burned into the picture (BurnedInAnnotation, PS3.3 C.7.6.1)."""
    return str(ds.get("BurnedInAnnotation", "")).strip().upper() == "YES"


def _frame(path: Path, frame: int):
    """Stored values (H, W[, 3]) of one frame, and the dataset with that frame's own LUTs at its top."""
    from pydicom.pixels import pixel_array

    ds = _header(path, pixels=True)
    frames = int(ds.get("NumberOfFrames", 1) or 1)
    if not 0 <= frame < max(frames, 1):
        raise Unreadable(f"it has no frame {frame}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = pixel_array(ds, index=frame if frames > 1 else None)
    except Exception as error:
        raise Unreadable(f"its pixels cannot be decoded: {error}") from None
    if frames == 1 and values.ndim == 3 and values.shape[-1] not in (3, 4):
        values = values[0]
    for groups, index in (("SharedFunctionalGroupsSequence", 0), ("PerFrameFunctionalGroupsSequence", frame)):
        items = ds.get(groups) or []
        if index < len(items):
            for name in ("PixelValueTransformationSequence", "FrameVOILUTSequence"):
                for item in items[index].get(name) or []:
                    for element in item:
                        ds[element.tag] = element
    return values, ds


def read_values(path: Path, frame: int = 0) -> np.ndarray:
    """Reads one frame: float32 (H, W) in the modality's units, or uint8/uint16 (H, W, 3) colour."""
    from pydicom.pixels import apply_modality_lut

    values, ds = _frame(path, frame)
    if values.ndim == 3:
        return values[..., :3]
    out = np.empty(values.shape, np.float32)
    for strip in _strips(values):
        out[strip] = apply_modality_lut(values[strip], ds)
    return out


def _strips(values: np.ndarray) -> list[slice]:
    """Rows of an image, STRIP pixels at a time: what is computed of them in double precision stays small."""
    rows = max(1, STRIP // values.shape[1])
    return [slice(start, start + rows) for start in range(0, len(values), rows)]


def has_window(ds) -> bool:
    """Returns whether a file says how its values are shown: by a window or a VOI LUT, for all frames or for each."""
    items = [*(ds.get("SharedFunctionalGroupsSequence") or ()), *(ds.get("PerFrameFunctionalGroupsSequence") or ())]
    where = [ds, *(item_lut for item in items for item_lut in item.get("FrameVOILUTSequence") or ())]
    return any("VOILUTSequence" in item or ("WindowCenter" in item and "WindowWidth" in item) for item in where)


def read_display(path: Path, frame: int = 0, scale: tuple[float, float] | None = None) -> np.ndarray:
    """Reads one frame as a viewer would show it: uint8 (H, W, 3).

    First the modality LUT, then the VOI LUT or window; MONOCHROME1 is inverted last. scale: the values that become 0
    and 255 where a file has neither; without it, the image's own least and largest.
    """
    from pydicom.pixels import apply_modality_lut, apply_voi_lut

    values, ds = _frame(path, frame)
    if values.ndim == 3:
        deep = int(ds.get("BitsStored", 8)) - 8
        return np.ascontiguousarray((values >> max(deep, 0)).astype(np.uint8)[..., :3])
    table, window = "VOILUTSequence" in ds, "WindowCenter" in ds and "WindowWidth" in ds
    if table:
        low, high = 0.0, float((1 << int(ds.VOILUTSequence[0].LUTDescriptor[2])) - 1)
    elif window:
        # The window's output range depends on the stored bits; two extreme values show what it is.
        low, high = (float(v) for v in apply_voi_lut(np.array([[-1e9, 1e9]]), ds)[0])
    elif scale:
        low, high = scale
    else:
        ends = [(rows.min(), rows.max()) for s in _strips(values) for rows in [apply_modality_lut(values[s], ds)]]
        low, high = float(min(least for least, _ in ends)), float(max(most for _, most in ends))
    shown = np.empty((*values.shape, 3), np.uint8)
    for strip in _strips(values):
        rows = apply_modality_lut(values[strip], ds)
        if table or window:
            rows = apply_voi_lut(rows if table else rows.astype(np.float64), ds)
        grey = np.clip((rows.astype(np.float64) - low) / max(high - low, 1e-12), 0, 1)
        if ds.get("PhotometricInterpretation") == "MONOCHROME1":
            grey = 1 - grey
        shown[strip] = (grey * 255).round().astype(np.uint8)[..., None]
    return shown
