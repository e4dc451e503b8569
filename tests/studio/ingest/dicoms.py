"""DICOM files for tests."""

from pathlib import Path

import numpy as np
import pydicom
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid


def write_dicom(path: Path, pixels: np.ndarray | None, **extra) -> Path:
    """pixels uint16 (H, W) or (F, H, W), or uint8 (H, W, 3), or None for a file without any."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    ds.SOPClassUID, ds.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    ds.Modality, ds.PatientName = "CT", "Nobody"
    if pixels is not None:
        colour = pixels.ndim == 3 and pixels.shape[-1] == 3
        ds.Rows, ds.Columns = pixels.shape[:2] if colour else pixels.shape[-2:]
        ds.SamplesPerPixel = 3 if colour else 1
        ds.PhotometricInterpretation = "RGB" if colour else "MONOCHROME2"
        if colour:
            ds.PlanarConfiguration = 0
        elif pixels.ndim == 3:
            ds.NumberOfFrames = len(pixels)
        bits = pixels.dtype.itemsize * 8
        ds.BitsAllocated = ds.BitsStored = bits
        ds.HighBit, ds.PixelRepresentation = bits - 1, 0
        ds.PixelData = pixels.tobytes()
    for name, value in extra.items():
        setattr(ds, name, value)
    pydicom.dcmwrite(path, ds, enforce_file_format=True)
    return path


def write_volume(
    folder: Path,
    count: int,
    axes: tuple = (1, 0, 0, 0, 1, 0),
    shape: tuple[int, int] = (24, 32),
    step: float = 2.5,
    seed: int = 0,
    files: str = "IM{name:04d}.dcm",
    missing: tuple[int, ...] = (),
    **extra,
) -> dict[int, Path]:
    """A volume of `count` files in `folder`, named in an order that is not theirs: place along the normal -> path.

    Instance numbers run against the places, as for a table that moves out. `extra`: for every slice; None leaves out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    names = rng.permutation(count)
    normal = np.cross(axes[:3], axes[3:])
    shared = {
        "StudyInstanceUID": generate_uid(),
        "SeriesInstanceUID": generate_uid(),
        "FrameOfReferenceUID": generate_uid(),
        "ImageOrientationPatient": list(axes),
        "PatientID": "12345",
        "PixelSpacing": [0.7, 0.7],
    }
    written = {}
    for k in range(count):
        pixels = rng.integers(0, 3000, shape, np.uint16)
        if k in missing:
            continue
        at = [f"{v:.4f}" for v in np.array([-110.5, -98.0, -1200.0]) + normal * step * k]
        own = {"ImagePositionPatient": at, "InstanceNumber": count - k}
        given = {n: v for n, v in (shared | own | extra).items() if v is not None}
        written[k] = write_dicom(folder / files.format(name=names[k]), pixels, **given)
    return written
