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
