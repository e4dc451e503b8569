"""Export of lesion masks as DICOM Segmentations by highdicom, and the code that all DICOM exports share.

Each mask of a case that was imported from DICOM becomes a file, with one segment for each connected component. A mask
with more than MOST components becomes one segment, because each segment takes a frame. A file names the software, the
model and the author. UIDs are derived from the content, and times are those of the mask, score or decision. A repeated
export is therefore identical byte for byte, and an archive stores each file once.
"""

from __future__ import annotations

import hashlib
import io
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from pydicom.uid import SecondaryCaptureImageStorage

from core.engine.registry import DETECTORS
from core.studio.db.store import Store
from core.studio.ingest import dicom
from core.studio.ingest.dicom import is_dicom
from core.studio.ingest.masks import decode_mask
from core.studio.ingest.unreadable import Unreadable
from core.studio.review.exports import pictures
from core.studio.review.exports.pictures import Masks, NothingToExport, Target, put
from core.studio.review.exports.tables import UID_ROOT, Names, recorded
from core.studio.runs import records as runs
from core.studio.runs import weights
from core.studio.runs.operating import in_effect, level_of

MOST = 64  # maximum number of segments
KINDS = {"reference": "Reference mask", "reader": "Reader's mask"}
MAKER, ALGORITHM = "PMSACL Studio", "algorithm"
_NAMED = ("PatientName", "PatientID", "PatientBirthDate", "AccessionNumber", "ReferringPhysicianName", "StudyID")
_KEPT_UIDS = ("SOPClassUID", "TransferSyntaxUID", "MediaStorageSOPClassUID")
_REQUIRED = ("PatientID", "PatientName", "PatientBirthDate", "PatientSex", "StudyID", "StudyDate", "StudyTime",
             "AccessionNumber", "ReferringPhysicianName")  # fmt: skip

_DATE, _TIME = r"\d{8}", r"\d{2}(\d\d){0,2}(\.\d{1,6})?"
_MOMENTS = {"StudyDate": _DATE, "StudyTime": _TIME, "PatientBirthDate": _DATE}  # valid values; others count as unknown


@dataclass(frozen=True)
class Algorithm:
    """Description of the detector that computed a score or a heat map.

    run: Id of the run, or "" if there is no detector.
    title: Displayed name of the detector.
    digest: SHA-256 of the detector's weights, or "" if unknown.
    threshold: Score above which the detector flags an image, or None if unknown.
    """

    run: str = ""
    title: str = ""
    digest: str = ""
    threshold: float | None = None

    @classmethod
    def of(cls, store: Store, run_id: str) -> Algorithm:
        """Returns the description of a run's detector, with the threshold of the operating point in effect."""
        run = runs.get_run(store, run_id)
        threshold = level_of(store, run_id, in_effect(store, run_id)[run_id])
        title, digest = DETECTORS.title(run["method"]), weights.digest(runs.run_folder(store, run_id))
        return cls(run_id, title, digest, threshold)

    @property
    def facts(self) -> dict[str, str]:
        """Id of the run, SHA-256 of the weights and threshold (if any), as {name: text}."""
        facts = {"run": self.run, "model SHA-256": self.digest}
        return facts if self.threshold is None else facts | {"threshold": f"{self.threshold:.9g}"}

    @property
    def equipment(self) -> dict[str, Any]:
        """Arguments of highdicom that describe the detector as a device. The serial number is `digest`."""
        model = f"{MAKER} {self.title}".strip()[:64]
        return {"manufacturer": MAKER, "manufacturer_model_name": model, "software_versions": software(),
                "device_serial_number": self.digest or "none"}  # fmt: skip


def software() -> str:
    """Returns the version of the studio, followed by the Git commit if the studio runs from a clone."""
    return f"{runs.version()} {runs.code_version()}".strip()


@dataclass
class Source:
    """DICOM image of a case, to which the exported files refer.

    header: DICOM header, converted to a single plane.
    kind: SOP class before the conversion.
    frame: Number of the frame from 1, or None if the file holds a single image.
    mapped: Function that converts a UID to its exported form.
    """

    header: pydicom.Dataset
    kind: str
    frame: int | None
    mapped: Callable[[str], str] = str

    @classmethod
    def of(cls, header: pydicom.Dataset, frame: int = 0, mapped: Callable[[str], str] = str) -> Source:
        """Builds a source from a DICOM header, which is converted in place. frame: Number of the frame from 0."""
        _complete(header)
        kind, frames = str(header.SOPClassUID), dicom.integer_of(header, "NumberOfFrames") or 1
        _flat(header, frame)
        return cls(header, kind, frame + 1 if frames > 1 else None, mapped)

    @property
    def frames(self) -> list[int] | None:
        """The frame number as a list, or None if the file holds a single image."""
        return None if self.frame is None else [self.frame]

    def uids(self, file_kind: str, author: str, *content: object) -> dict[str, Any]:
        """Returns the series UID and instance UID of a file to export, as arguments of highdicom.

        Files of the same DICOM study, kind and author share a series. content: Values that identify the file.
        """
        series = uid_of(file_kind, self.header.StudyInstanceUID, author)
        instance = uid_of(series, self.header.SOPInstanceUID, self.frame, *content)
        return {"series_instance_uid": series, "sop_instance_uid": self.mapped(instance)}

    def sealed(self, file: pydicom.Dataset, when: str) -> pydicom.Dataset:
        """Completes a file and returns it: replaces random UIDs, sets all times, and corrects references to the source.

        when: Time of the content in UTC, in ISO format.
        """
        _refer(file, self)
        day, clock = when[:10].replace("-", ""), when[11:23].replace(":", "")
        for element in file.iterall():
            if element.keyword in ("ContentDate", "InstanceCreationDate"):
                element.value = day
            elif element.keyword in ("ContentTime", "InstanceCreationTime"):
                element.value = clock
            elif element.keyword == "ContributionDateTime":
                element.value = day + clock
            elif element.keyword == "DimensionOrganizationUID":
                element.value = uid_of(file.SOPInstanceUID, "dimensions")
        file.TimezoneOffsetFromUTC = "+0000"
        return file


def uid_of(*values: object) -> str:
    """Derives a UID from the values, so that the same values always give the same UID."""
    return UID_ROOT + str(int.from_bytes(hashlib.sha256(repr([str(p) for p in values]).encode()).digest()[:16], "big"))


def export_dicom_seg(
    store: Store,
    study: str,
    out: Target,
    by: str,
    keep_names: bool = False,
    masks: str = "",
    form: str = "BINARY",
) -> dict:
    """Writes a DICOM Segmentation (.dcm) for the lesion mask of each case that was imported from DICOM.

    keep_names: Whether to export real names, UIDs and dates instead of remapped ones.
    masks: Kind of the masks, as in `Masks`.
    form: "BINARY" for one frame per segment, or "LABELMAP" for one frame whose values are the numbers of the segments.

    Returns {"files": number of files, "passed_over": number of cases that are not DICOM or have an empty mask,
    "left_out": cases that failed, as [{"case", "reason"}], "burned_in": cases with likely burned-in text, as {"cases":
    ids}, "masks": number of masks by kind}. Raises NothingToExport if no file is written.
    """
    names, algorithms = Names(store, study, keep_names), dict[str, Algorithm]()
    labels = pictures.Labels(store, study)

    def files(source: Source, row: dict) -> Iterator[tuple[str, pydicom.Dataset]]:
        mask = decode_mask(row["png"])
        if mask.any():
            if row["run"] and row["run"] not in algorithms:
                algorithms[row["run"]] = Algorithm.of(store, row["run"])
            segmentation = _segmentation(
                source, mask, labels.named(row) or pictures.DEFAULT, names.reader(row["drawn_by"]) or "import",
                algorithms.get(row["run"]), row["threshold"], row["version"], row["kind"], form,
            )  # fmt: skip
            yield f"seg-{row['id']}-v{row['version']}.dcm", source.sealed(segmentation, names.when(row["drawn"]) or "")

    nothing = "no case of this study came as DICOM with a mask"
    exported = Masks(store, study, masks)
    name = "dicom-labelmap" if form == "LABELMAP" else "dicom-seg"
    return write_all(store, study, out, by, names, name, exported, files, nothing) | {"masks": dict(exported.counts)}


def write_all(
    store: Store,
    study: str,
    out: Target,
    by: str,
    names: Names,
    format: str,
    rows: Iterable[dict],
    make: Callable[[Source, dict], Iterator[tuple[str, pydicom.Dataset]]],
    nothing: str,
) -> dict:
    """Writes the files of a DICOM export and records the export in the audit trail.

    names: Translation of names for the exported files.
    format: Name of the export format.
    rows: Rows of the cases, read one at a time.
    make: Function that yields the name and dataset of each file of a case.
    nothing: Why there is nothing to export, reported if no file is written.

    Returns the same dictionary as `export_dicom_seg`, without "masks". Raises NothingToExport if no file is written.
    """
    written, passed, files, left_out = list[int](), 0, 0, list[dict[str, str]]()
    for row in rows:
        try:
            objects = _objects(row, names, make) if is_dicom(Path(row["path"])) else []
        except (Unreadable, OSError) as error:
            reason = str(error) if isinstance(error, Unreadable) else "its file cannot be read"
            left_out.append({"case": names.case(row), "reason": reason})
            continue
        except Exception as error:  # highdicom and pydicom raise many kinds of errors on an invalid header
            logging.getLogger(__name__).debug("no object of a header", exc_info=error)
            left_out.append({"case": names.case(row), "reason": "its header has values that no file may refer to"})
            continue
        for name, data in objects:
            put(out, name, data)
        files += len(objects)
        written += [row["id"]] * bool(objects)
        passed += not objects
    if not files:
        raise NothingToExport(f"{nothing}; {left_out[0]['reason']}" if left_out else nothing)
    text = recorded(store, study, by, names, format, written, files=files)
    return {"files": files, "passed_over": passed, "left_out": left_out, "burned_in": text}


def _objects(
    row: dict, names: Names, make: Callable[[Source, dict], Iterator[tuple[str, pydicom.Dataset]]]
) -> list[tuple[str, bytes]]:
    """Returns the name and content of all files of one case."""
    header = dicom.header(Path(row["path"]))
    if not names.keep:
        _anonymise(header, names, row)
    objects = []
    for name, file in make(Source.of(header, row["frame"], names.uid), row):
        file.save_as(data := io.BytesIO())
        objects.append((name, data.getvalue()))
    return objects


def _segmentation(
    source: Source,
    mask: np.ndarray,
    label: str,
    author: str,
    algorithm: Algorithm | None,
    threshold: float | None,
    version: int,
    kind: str = "reader",
    form: str = "BINARY",
) -> pydicom.Dataset:
    """Builds a DICOM Segmentation. algorithm, threshold: Detector whose heat map was outlined and the heat-map value
    of the outline, or None for a mask drawn by hand. kind: Key of KINDS."""
    import highdicom as hd
    from pydicom.sr.codedict import codes

    numbered, count = pictures.label_map(mask)
    if count > MOST:
        numbered, count = (mask > 0).astype(np.uint8), 1
    kinds, identified = hd.seg.SegmentAlgorithmTypeValues, None
    if algorithm is not None:
        parameters = algorithm.facts | {"outlined at": "" if threshold is None else f"{threshold:.9g}"}
        identified = hd.AlgorithmIdentificationSequence(
            name=algorithm.title, version=software(), family=codes.DCM.ArtificialIntelligence, parameters=parameters
        )
    described = [
        hd.seg.SegmentDescription(
            segment_number=i,
            segment_label=f"{label[:58]} {i}" if count > 1 else label[:64],
            segmented_property_category=codes.SCT.MorphologicallyAbnormalStructure,
            segmented_property_type=codes.SCT.Lesion,
            algorithm_type=kinds.SEMIAUTOMATIC if identified else kinds.MANUAL,
            algorithm_identification=identified,
        )
        for i in range(1, count + 1)
    ]
    return hd.seg.Segmentation(
        source_images=[source.header],
        pixel_array=numbered.astype(np.uint8)[None],
        segmentation_type=hd.seg.SegmentationTypeValues[form],
        segment_descriptions=described,
        series_number=900,
        instance_number=1,
        omit_empty_frames=True,
        content_creator_name=person(author),
        content_description=KINDS[kind],
        **source.uids(
            "seg", author, version, kind, label, np.packbits(mask > 0).tobytes(), *[form][form == "BINARY" :]
        ),
        **(algorithm or Algorithm()).equipment,
    )


def person(name: str) -> str:
    """Converts a reader's name to a DICOM person name that has only a family name."""
    plain = "".join(" " if c in "^=\\" or not c.isprintable() else c for c in name).strip()
    return f"{plain[:63] or 'unknown'}^"


def _flat(header: pydicom.Dataset, frame: int) -> None:
    """Converts the header of an image, or of one frame of a file, to the single plane that highdicom requires.

    The position of a frame is read from its functional groups. Images without a position in space, such as radiographs,
    get their own plane and frame of reference, and unknown spacings become 1.
    """
    shared = header.get("SharedFunctionalGroupsSequence") or []
    groups = [*shared, *(header.get("PerFrameFunctionalGroupsSequence") or [])[frame : frame + 1]]
    for sequence in ("PlanePositionSequence", "PlaneOrientationSequence", "PixelMeasuresSequence"):
        for group in groups:
            for item in group.get(sequence) or ():
                header.update(item)
    for keyword in ("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"):
        if keyword in header:
            delattr(header, keyword)
    if "NumberOfFrames" in header:
        del header.NumberOfFrames
        header.SOPClassUID = SecondaryCaptureImageStorage  # highdicom would expect frames in the class of a recording
    corner, axes = dicom.numbers(header, "ImagePositionPatient", 3), dicom.numbers(header, "ImageOrientationPatient", 6)
    if dicom.text(header, "FrameOfReferenceUID") and corner and axes:
        header.ImagePositionPatient, header.ImageOrientationPatient = corner, axes
    else:
        header.FrameOfReferenceUID = pydicom.uid.generate_uid(entropy_srcs=[str(header.SOPInstanceUID)])
        header.ImagePositionPatient, header.ImageOrientationPatient = [0, 0, 0], [1, 0, 0, 0, 1, 0]
    if str(header.SOPClassUID) not in pydicom.uid.UID_dictionary:  # a private class, unknown to highdicom
        header.SOPClassUID = SecondaryCaptureImageStorage
    spacings = (dicom.spacing(header, keyword) for keyword in ("PixelSpacing", "ImagerPixelSpacing"))
    header.PixelSpacing = list(next(filter(None, spacings), (1, 1)))
    thickness = (dicom.numbers(header, "SliceThickness", 1) or [0])[0]
    header.SliceThickness = thickness if thickness > 0 else 1


def _refer(item: pydicom.Dataset, source: Source, derived: bool = False) -> None:
    """Sets the source's SOP class in every reference to the source, and the frame number in a SourceImageSequence."""
    if item.get("ReferencedSOPInstanceUID") == source.header.SOPInstanceUID:
        item.ReferencedSOPClassUID = source.kind
        if source.frame is not None and derived:
            item.ReferencedFrameNumber = source.frame
    for element in item:
        if element.VR == "SQ":
            for inner in element.value:
                _refer(inner, source, element.keyword == "SourceImageSequence")


def _complete(source: pydicom.Dataset) -> None:
    """Adds attributes that highdicom requires and some devices omit, with values that mean 'unknown'."""
    for keyword in _REQUIRED:
        if keyword not in source:
            setattr(source, keyword, "")
    for keyword, form in _MOMENTS.items():
        if not re.fullmatch(form, dicom.text(source, keyword)):
            setattr(source, keyword, "")
    if not dicom.text(source, "SOPClassUID"):
        source.SOPClassUID = SecondaryCaptureImageStorage
    if not set(dicom.text(source, "SpecificCharacterSet").split("\\")) <= set(pydicom.charset.python_encoding):
        source.SpecificCharacterSet = "ISO_IR 192"  # UTF-8, in which pydicom then writes the texts
    for keyword in ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID"):
        if not source.get(keyword):
            uids = [source.get(k) for k in ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID")]
            setattr(source, keyword, uid_of(keyword, source.get("PatientID"), *uids))


def _anonymise(source: pydicom.Dataset, names: Names, row: dict) -> None:
    # All slices of a volume and all files of a patient get the same patient id.
    patient = source.get("PatientID") or source.get("StudyInstanceUID") or row["sha256"]
    for keyword in _NAMED:
        if keyword in source:
            setattr(source, keyword, "")
    source.PatientID = "patient-" + names.uid(f"patient {patient}")[-10:]
    for element in source.iterall():
        if element.VR == "UI" and element.keyword not in _KEPT_UIDS:
            if element.keyword.endswith("InstanceUID") or element.keyword == "FrameOfReferenceUID":
                element.value = names.uid(str(element.value))
        elif element.VR == "DA" and isinstance(element.value, str):
            element.value = names.day(element.value)
