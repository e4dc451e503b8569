"""Exports of heat maps as DICOM Parametric Maps, and of decisions, findings and scores as DICOM measurement reports.

Reports follow TID 1500 of PS3.16. Each case has one report per reader, and one report by the detector as an observing
device. A reader's report names the detector whose score was displayed, or no detector if the case was read blind.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pydicom

from core.engine.calibration.quantise import quantise
from core.studio.db.store import Store
from core.studio.ingest.masks import decode_mask
from core.studio.review.cases import scored_runs
from core.studio.review.exports.dicom_seg import ALGORITHM, Algorithm, Source, person, software, uid_of, write_all
from core.studio.review.exports.pictures import Target, each
from core.studio.review.exports.tables import Names
from core.studio.runs import records as runs
from core.studio.runs.readings import pixel_scale, unpack_map, unpack_not_judged

SCHEME = "99PMSACL"  # private coding scheme of this studio
_READING = "coalesce(r.score_roi, r.score) AS score, coalesce(r.percentile_roi, r.percentile) AS percentile, "
_READING += "coalesce(r.flagged_roi, r.flagged) AS flagged, r.created AS scored"


def export_dicom_map(
    store: Store, study: str, out: Target, by: str, keep_names: bool = False, run: str | None = None
) -> dict:
    """Writes a DICOM Parametric Map (.dcm) with the heat map of each case that was imported from DICOM.

    keep_names: Whether to export real names, UIDs and dates instead of remapped ones.
    run: Id of the run whose heat maps are exported, by default the study's default run.

    Returns the same dictionary as `export_dicom_seg`, without "masks". Raises NothingToExport if no file is written,
    and ValueError if `run` has scored no case.
    """
    names, algorithm = Names(store, study, keep_names), _algorithm(store, study, run)
    rows = each(
        store,
        "SELECT r.run, c.id FROM readings r JOIN cases c ON c.id = r.case_id "
        "WHERE c.study = ? AND r.run = ? AND r.map IS NOT NULL ORDER BY c.id",
        [study, algorithm.run],
        "SELECT c.*, r.map, r.map_h, r.map_w, r.map_lo, r.map_hi, r.not_judged, r.created AS scored FROM readings r "
        "JOIN cases c ON c.id = r.case_id WHERE r.run = :run AND c.id = :id",
    )
    scale: Any = None

    def maps(source: Source, row: dict) -> Iterator[tuple[str, pydicom.Dataset]]:
        nonlocal scale
        scale = scale or pixel_scale(runs.get_run(store, algorithm.run))
        parametric_map = _parametric_map(source, unpack_map(row), unpack_not_judged(row), algorithm, scale)
        yield f"map-{row['id']}.dcm", source.sealed(parametric_map, names.when(row["scored"]) or "")

    nothing = "no case of this study came as DICOM with a heat map"
    return write_all(store, study, out, by, names, "dicom-map", rows, maps, nothing)


def _algorithm(store: Store, study: str, run: str | None) -> Algorithm:
    scored = [row["id"] for row in scored_runs(store, study)]
    if run is not None and run not in scored:
        raise ValueError(f"{run} has scored no case of {study}.")
    return Algorithm.of(store, run or scored[0]) if scored else Algorithm()


def _parametric_map(
    source: Source, heat: np.ndarray, hidden: np.ndarray, algorithm: Algorithm, scale: Any
) -> pydicom.Dataset:
    """Builds a Parametric Map of 16 bits, resized to the image, with slope and intercept of the stored values.

    heat: Heat map, float32 (h, w).
    hidden: Whether a pixel is not judged, bool (h, w). Such pixels get the padding value 0.
    scale: Colour scale of the run, which viewers use as window.
    """
    import highdicom as hd
    from pydicom.sr.codedict import codes

    size = int(source.header.Columns), int(source.header.Rows)
    stored, low, high = quantise(cv2.resize(heat.astype(np.float32), size, interpolation=cv2.INTER_LINEAR))
    slope = (high - low) / 65535 or 1.0
    padded = cv2.resize(hidden.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0
    if padded.any():
        stored = np.where(padded, 0, np.maximum(stored, 1))
    mapping = hd.pm.RealWorldValueMapping(
        lut_label="anomaly",
        lut_explanation=f"How unlike normal images, {algorithm.title}"[:64],
        unit=codes.UCUM.NoUnits,
        value_range=(int(padded.any()), 65535),
        slope=slope,
        intercept=low,
        quantity_definition=hd.sr.CodedConcept("anomaly", SCHEME, "Anomaly score"),
    )
    window = hd.VOILUTTransformation(  # of stored values
        window_center=((scale.lo + scale.hi) / 2 - low) / slope, window_width=max((scale.hi - scale.lo) / slope, 1.0)
    )
    parametric_map = hd.pm.ParametricMap(
        source_images=[source.header],
        pixel_array=stored[None].astype(np.uint16),
        series_number=901,
        instance_number=1,
        contains_recognizable_visual_features=False,
        real_world_value_mappings=[mapping],
        voi_lut_transformations=[window],
        content_label="ANOMALY_MAP",
        content_description="How unlike normal images each place is"[:64],
        content_creator_name=person(ALGORITHM),
        **source.uids(
            "map", algorithm.run, algorithm.facts, hashlib.sha256(heat.tobytes() + hidden.tobytes()).hexdigest()
        ),
        **algorithm.equipment,
    )
    parametric_map.Laterality = source.header.get("Laterality", "")
    parametric_map.ImageComments = f"{algorithm.title}, version {software()}: " + _words(algorithm.facts)
    if padded.any():
        parametric_map.PixelPaddingValue = 0
        parametric_map.ImageComments += "; 0: not judged"
    return parametric_map


def _words(facts: dict[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in facts.items())


def export_dicom_sr(
    store: Store, study: str, out: Target, by: str, keep_names: bool = False, run: str | None = None
) -> dict:
    """Writes DICOM measurement reports (.dcm) of the cases that were imported from DICOM.

    Each reader who decided or recorded a finding on a case gets a report, and the run's score of the case gets another.

    keep_names: Whether to export real names, UIDs and dates instead of remapped ones.
    run: Id of the run whose scores are exported, by default the study's default run.

    Returns the same dictionary as `export_dicom_seg`, without "masks". Raises NothingToExport if no file is written,
    and ValueError if `run` has scored no case.
    """
    names, algorithms = Names(store, study, keep_names), {"": Algorithm()}
    default = _algorithm(store, study, run)
    algorithms[default.run] = default
    rows = store.query(
        "SELECT * FROM cases c WHERE study = ? AND (EXISTS (SELECT 1 FROM current_reviews WHERE case_id = c.id) "
        "OR EXISTS (SELECT 1 FROM findings WHERE case_id = c.id) OR EXISTS (SELECT 1 FROM readings WHERE run = ? "
        "AND case_id = c.id AND score IS NOT NULL)) ORDER BY id",
        [study, default.run],
    )

    def reports(source: Source, row: dict) -> Iterator[tuple[str, pydicom.Dataset]]:
        for author, words in _words_by_author(store, row["id"], default.run).items():
            for run_id in {review["run"] for review in words["reviews"] if review["run"]} - set(algorithms):
                algorithms[run_id] = Algorithm.of(store, run_id)
            name = ALGORITHM if author == ALGORITHM else person(names.reader(author) or "")
            report = _report(source, name, words, default if author == ALGORITHM else None, algorithms)
            when = max(w["created"] for kind in words.values() for w in kind)
            yield f"sr-{row['id']}-{uid_of(name)[-8:]}.dcm", source.sealed(report, names.when(when) or "")

    nothing = "no case of this study came as DICOM and has a score, a decision or a finding"
    return write_all(store, study, out, by, names, "dicom-sr", rows, reports, nothing)


def _words_by_author(store: Store, case: int, run: str) -> dict[str, dict[str, list[dict]]]:
    """Returns the decisions, findings and scores of a case as {author: {"reviews", "findings", "scores"}}."""
    by_author: dict[str, dict[str, list[dict]]] = {}
    reviews = store.query(
        f"SELECT v.*, {_READING} FROM current_reviews k JOIN reviews v ON v.id = k.review_id "
        "LEFT JOIN readings r ON r.case_id = v.case_id AND r.run = v.run WHERE k.case_id = ? ORDER BY v.id",
        [case],
    )
    findings = store.query(
        "SELECT f.*, m.png FROM findings f LEFT JOIN lesion_masks m ON m.case_id = f.case_id "
        "AND m.version = f.mask_version WHERE f.case_id = ? ORDER BY f.id",
        [case],
    )
    scores = store.query(
        f"SELECT r.case_id, r.run, r.created, {_READING} FROM readings r "
        "WHERE r.case_id = ? AND r.run = ? AND r.score IS NOT NULL",
        [case, run],
    )
    for kind, rows in (("reviews", reviews), ("findings", findings), ("scores", scores)):
        for row in rows:
            author = ALGORITHM if kind == "scores" else f"{row['reader']}"
            by_author.setdefault(author, {"reviews": [], "findings": [], "scores": []})[kind].append(row)
    return by_author


def _report(
    source: Source, name: str, words: dict[str, list[dict]], device: Algorithm | None, algorithms: dict[str, Algorithm]
) -> pydicom.Dataset:
    """Builds a report. device: Detector that is the observer, or None for a reader. algorithms: Detectors by run."""
    import highdicom as hd
    from pydicom.sr.codedict import codes

    groups = [_decision(source, row, algorithms) for row in (*words["reviews"], *words["scores"])]
    groups += [_finding(source, row) for row in words["findings"]]
    used = device or algorithms[next((row["run"] for row in reversed(words["reviews"]) if row["run"]), None) or ""]
    listed = {kind: [{k: v for k, v in row.items() if k != "png"} for row in rows] for kind, rows in words.items()}
    uids = source.uids("sr", name, json.dumps(listed, default=str), used.facts)
    equipment = used.equipment
    observer = hd.sr.ObserverContext(
        observer_type=codes.DCM.Device,
        observer_identifying_attributes=hd.sr.DeviceObserverIdentifyingAttributes(
            uid=uid_of("device", used.digest),
            name=ALGORITHM,
            manufacturer_name=equipment["manufacturer"],
            model_name=equipment["manufacturer_model_name"],
            serial_number=equipment["device_serial_number"],
        ),
    )
    reader = None
    if device is None:
        reader = hd.sr.ObserverContext(
            observer_type=codes.DCM.Person,
            observer_identifying_attributes=hd.sr.PersonObserverIdentifyingAttributes(name=name),
        )
    content = hd.sr.MeasurementReport(
        observation_context=hd.sr.ObservationContext(
            observer_person_context=reader,
            # A blind reader was not influenced by a detector.
            observer_device_context=observer if used.run else None,
        ),
        procedure_reported=codes.SCT.ImagingProcedure,
        imaging_measurements=groups,
    )
    return hd.sr.ComprehensiveSR(
        evidence=[source.header], content=content[0], series_number=902, instance_number=1, is_complete=True,
        **uids, **equipment,
    )  # fmt: skip


def _decision(source: Source, row: dict, algorithms: dict[str, Algorithm]) -> Any:
    """Builds the group of a decision, by a reader or a run's threshold, with the score behind it."""
    import highdicom as hd
    from pydicom.sr.codedict import codes

    decision = row.get("decision") or ("abnormal" if row["flagged"] else "normal")
    values = {"normal": codes.SCT.Normal, "abnormal": codes.SCT.Abnormal, "unsure": codes.SCT.Indeterminate}
    stage, algorithm, measured = row.get("stage", ALGORITHM), algorithms[row["run"] or ""], []
    if row["score"] is not None:
        made_by = hd.sr.AlgorithmIdentification(
            algorithm.title, software(), [f"{name}: {value}" for name, value in algorithm.facts.items()]
        )
        numbers = [("score", "Anomaly score", row["score"], codes.UCUM.NoUnits)]
        if algorithm.threshold is not None:
            numbers.append(("threshold", "Flagged above", algorithm.threshold, codes.UCUM.NoUnits))
        numbers.append(("percentile", "Percentile of normal images", row["percentile"], codes.UCUM.Percent))
        measured = [
            hd.sr.Measurement(hd.sr.CodedConcept(code, SCHEME, meaning), value, unit, algorithm_id=made_by)
            for code, meaning, value, unit in numbers
            if value is not None
        ]
    group = hd.sr.MeasurementsAndQualitativeEvaluations(
        tracking_identifier=hd.sr.TrackingIdentifier(
            uid=uid_of("decision", source.header.SOPInstanceUID, source.frame, stage, row.get("id"), row["run"]),
            identifier=f"decision, {stage}",
        ),
        measurements=measured or None,
        qualitative_evaluations=[
            hd.sr.QualitativeEvaluation(hd.sr.CodedConcept("decision", SCHEME, "Decision"), values[decision])
        ],
        source_images=[
            hd.sr.SourceImageForMeasurementGroup(source.kind, source.header.SOPInstanceUID, source.frames)
        ],
    )  # fmt: skip
    return _commented(group, row.get("comment"))


def _finding(source: Source, row: dict) -> Any:
    import highdicom as hd
    from pydicom.sr.codedict import codes

    label = hd.sr.CodedConcept(hashlib.sha1(row["label"].encode()).hexdigest()[:16], SCHEME, row["label"][:64])
    tracked = hd.sr.TrackingIdentifier(
        uid=uid_of("finding", source.header.SOPInstanceUID, row["id"]), identifier=f"finding {row['id']}"
    )
    measured = None
    if row["png"] is not None:
        pixels = hd.sr.CodedConcept("{pixels}", "UCUM", "pixels")
        measured = [hd.sr.Measurement(codes.SCT.Area, int((decode_mask(row["png"]) > 0).sum()), pixels)]
    arguments: dict[str, Any] = {"tracking_identifier": tracked, "finding_type": label, "measurements": measured}
    if row["box"] is None:
        image = hd.sr.SourceImageForMeasurementGroup(source.kind, source.header.SOPInstanceUID, source.frames)
        group: Any = hd.sr.MeasurementsAndQualitativeEvaluations(**arguments, source_images=[image])
    else:
        x0, y0, x1, y1 = json.loads(row["box"])
        grown = 0.5 * (x0 == x1), 0.5 * (y0 == y1)  # a point becomes the pixel around it
        x0, x1, y0, y1 = x0 - grown[0], x1 + grown[0], y0 - grown[1], y1 + grown[1]
        region = hd.sr.ImageRegion(
            graphic_type=hd.sr.GraphicTypeValues.POLYLINE,
            graphic_data=np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]),
            source_image=hd.sr.SourceImageForRegion(source.kind, source.header.SOPInstanceUID, source.frames),
        )
        group = hd.sr.PlanarROIMeasurementsAndQualitativeEvaluations(**arguments, referenced_region=region)
    return _commented(group, row["comment"])


def _commented(group: Any, comment: str | None) -> Any:
    import highdicom as hd
    from pydicom.sr.codedict import codes

    if comment and comment.strip():
        kind = hd.sr.RelationshipTypeValues.CONTAINS
        group[0].ContentSequence.append(hd.sr.TextContentItem(codes.DCM.Comment, comment, kind))
    return group
