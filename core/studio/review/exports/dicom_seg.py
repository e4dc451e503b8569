"""DICOM-SEG by highdicom, for cases that came as DICOM: one file for each lesion mask, one segment for each component.

A mask of very many specks (more than MOST) goes out as one segment: a segment is a frame of its own in the file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pydicom
from pydicom.uid import SecondaryCaptureImageStorage

from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.ingest import burned_in
from core.studio.ingest.masks import decode_mask
from core.studio.review.decisions import finding_labels as study_labels
from core.studio.review.exports import pictures
from core.studio.review.exports.pictures import newest_masks
from core.studio.review.exports.tables import Names

MOST = 64  # segments
_NAMED = ("PatientName", "PatientID", "PatientBirthDate", "AccessionNumber", "ReferringPhysicianName", "StudyID")


def export_dicom_seg(store: Store, study: str, folder: Path, by: str, keep_names: bool = False) -> dict:
    """One .dcm in `folder` for each DICOM case with a mask. {"files", "passed_over" (no DICOM), "folder",
    "burned_in"}. Raises ValueError if there is none."""
    from core.studio.ingest.dicom import is_dicom

    names = Names(store, study, keep_names)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found, own = pictures.labels_of(store, study), study_labels(store, study)
    written, passed = [], 0
    for row in newest_masks(store, study):
        mask = decode_mask(row["png"])
        if not is_dicom(Path(row["path"])) or not mask.any():
            passed += 1
            continue
        source = pydicom.dcmread(row["path"])
        if not keep_names:
            _anonymise(source, names, row)
        label = pictures.label_of(row, found, own)
        segment(source, mask, row["frame"], label).save_as(folder / f"seg-{row['id']}-v{row['version']}.dcm")
        written.append(row["id"])
    if not written:
        raise ValueError("There is nothing to export: no case of this study came as DICOM with a mask.")
    text = burned_in.among(store, study, written)
    details = {"format": "dicom-seg", "files": len(written), "named": keep_names, "burned_in": len(text["cases"])}
    audit.record(store, by, "export", study=study, after=details)
    return {"files": len(written), "passed_over": passed, "folder": str(folder), "burned_in": text}


def segment(source: pydicom.Dataset, mask: np.ndarray, frame: int = 0, label: str = pictures.DEFAULT):
    """A highdicom Segmentation of one source image (or one of its frames); mask (H, W) of 0 and 1.

    Segment i is the i-th component, called "label i"; with one segment just "label".
    """
    import highdicom as hd
    from pydicom.sr.codedict import codes

    _complete(source)
    parts, count = pictures.label_map(mask)
    if count > MOST:
        parts, count = (mask > 0).astype(np.uint8), 1
    described = [
        hd.seg.SegmentDescription(
            segment_number=i,
            segment_label=f"{label[:58]} {i}" if count > 1 else label[:64],
            segmented_property_category=codes.SCT.MorphologicallyAbnormalStructure,
            segmented_property_type=codes.SCT.Lesion,
            algorithm_type=hd.seg.SegmentAlgorithmTypeValues.SEMIAUTOMATIC,
            algorithm_identification=hd.AlgorithmIdentificationSequence(
                name="PMSACL Studio", version="1", family=codes.DCM.ArtificialIntelligence
            ),
        )
        for i in range(1, count + 1)
    ]
    frames = int(source.get("NumberOfFrames", 1) or 1)
    positioned = "PerFrameFunctionalGroupsSequence" in source  # the file says where each frame lies
    kind = source.SOPClassUID
    if not positioned:
        _flat(source)
    pixels = np.zeros((frames if positioned else 1, *mask.shape), np.uint8)
    pixels[frame if positioned else 0] = parts
    made = hd.seg.Segmentation(
        source_images=[source],
        pixel_array=pixels,
        segmentation_type=hd.seg.SegmentationTypeValues.BINARY,
        segment_descriptions=described,
        series_instance_uid=hd.UID(),
        series_number=900,
        sop_instance_uid=hd.UID(),
        instance_number=1,
        manufacturer="PMSACL Studio",
        manufacturer_model_name="PMSACL Studio",
        software_versions="1",
        device_serial_number="1",
        omit_empty_frames=True,
    )
    if not positioned:
        _refer(made, source.SOPInstanceUID, kind, frame + 1 if frames > 1 else None)
    return made


def _flat(source: pydicom.Dataset) -> None:
    """Makes of an image or a recording without functional groups what highdicom takes: one plane.

    Radiographs, endoscopy and ultrasound have no place in space, and highdicom asks for one: the image's own plane,
    in a frame of reference that is its alone, one unit a pixel where no spacing is known.
    """
    if "NumberOfFrames" in source:
        del source.NumberOfFrames
        source.SOPClassUID = SecondaryCaptureImageStorage  # for the class of a recording it would look for frames
    if not all(source.get(k) for k in ("FrameOfReferenceUID", "ImagePositionPatient", "ImageOrientationPatient")):
        source.FrameOfReferenceUID = pydicom.uid.generate_uid(entropy_srcs=[str(source.SOPInstanceUID)])
        source.ImagePositionPatient, source.ImageOrientationPatient = [0, 0, 0], [1, 0, 0, 0, 1, 0]
    if "PixelSpacing" not in source:
        source.PixelSpacing = source.get("ImagerPixelSpacing") or [1, 1]
    if "SliceThickness" not in source:
        source.SliceThickness = 1


def _refer(item: pydicom.Dataset, instance: str, kind: str, frame: int | None) -> None:
    """Every reference to the source names the class that it has, and the frame (from 1) of a recording."""
    if item.get("ReferencedSOPInstanceUID") == instance:
        item.ReferencedSOPClassUID = kind
        if frame is not None:
            item.ReferencedFrameNumber = frame
    for element in item:
        if element.VR == "SQ":
            for inner in element.value:
                _refer(inner, instance, kind, frame)


def _complete(source: pydicom.Dataset) -> None:
    """What highdicom asks of a source and some devices leave out; values that mean 'not known'."""
    for keyword in ("PatientID", "PatientName", "PatientBirthDate", "PatientSex", "StudyID", "StudyDate", "StudyTime",
                    "AccessionNumber", "ReferringPhysicianName"):  # fmt: skip
        if keyword not in source:
            setattr(source, keyword, "")
    for keyword in ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID"):
        if keyword not in source:
            setattr(source, keyword, pydicom.uid.generate_uid())


def _anonymise(source: pydicom.Dataset, names: Names, row: dict) -> None:
    # All slices of a volume, and all files of a patient, name one patient.
    patient = source.get("PatientID") or source.get("StudyInstanceUID") or row["sha256"]
    for keyword in _NAMED:
        if keyword in source:
            setattr(source, keyword, "")
    source.PatientID = "patient-" + names.uid(f"patient {patient}")[-10:]
    for element in source.iterall():
        if element.VR == "UI" and element.keyword not in (
            "SOPClassUID",
            "TransferSyntaxUID",
            "MediaStorageSOPClassUID",
        ):
            if element.keyword.endswith("InstanceUID") or element.keyword in (
                "FrameOfReferenceUID",
                "ReferencedSOPInstanceUID",
            ):
                element.value = names.uid(str(element.value))
        elif element.VR == "DA" and isinstance(element.value, str):
            element.value = names.day(element.value)
