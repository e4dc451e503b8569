"""Registry of the formats in which a study is exported, by the names that the API, command line and page use."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from core.studio.db.store import Store
from core.studio.review.exports.annotations import OUT, export_annotations
from core.studio.review.exports.dicom_reports import export_dicom_map, export_dicom_sr
from core.studio.review.exports.dicom_seg import export_dicom_seg
from core.studio.review.exports.pictures import Target, export_anomalib, export_coco, export_png
from core.studio.review.exports.tables import export_csv, export_findings, export_scores
from core.studio.runs.marks import TRUTHS

FILES: dict[str, Callable[..., dict]] = {  # formats with many files, written to a folder or a zip
    "png": export_png, "dicom-seg": export_dicom_seg, "dicom-labelmap": partial(export_dicom_seg, form="LABELMAP"),
    "anomalib": export_anomalib,
}  # fmt: skip
OF_A_RUN = {"dicom-map": export_dicom_map, "dicom-sr": export_dicom_sr}  # formats with many files for one run
TABLES = {"scores": export_scores, "findings": export_findings}
SUFFIXES = {
    "csv": "csv",
    **dict.fromkeys(TABLES, "csv"),
    "coco": "json",
    **OUT,
    **dict.fromkeys([*FILES, *OF_A_RUN], "zip"),
}


def write_form(
    store: Store,
    study: str,
    form: str,
    target: Path,
    by: str,
    keep_names: bool = False,
    run: str | None = None,
    masks: str = "",
) -> dict:
    """Exports a study in one format and returns the result of the format's export function.

    form: Key of SUFFIXES.
    target: File to write. For formats with many files, this is a zip, or a folder if the path has no suffix.
    keep_names: Whether to export real names instead of remapped ones.
    run: Id of the run whose scores and heat maps are exported, by default the study's default run.
    masks: "reference" or "readers" for lesion masks of this kind only, or "" for each case's reference mask or, if
        there is none, the newest mask by a reader.

    Raises ValueError, and leaves no file, if there is nothing to export or `form` or `masks` is invalid.
    """
    if form not in SUFFIXES:
        raise ValueError(f"a study is exported as one of {', '.join(SUFFIXES)}, not {form!r}")
    if masks not in ("", *TRUTHS):
        raise ValueError(f"Masks are of kind {' or '.join(TRUTHS)}, not {masks!r}.")
    try:
        if form == "csv":
            return export_csv(store, study, target, by, keep_names, run)
        if form in TABLES:
            return TABLES[form](store, study, target, by, keep_names)
        if form == "coco":
            return export_coco(store, study, target, by, keep_names, masks)
        if form in OUT:
            return export_annotations(store, study, target, form, by, keep_names, masks)
        with contextlib.ExitStack() as stack:
            out: Target = target
            if target.suffix and not target.is_dir():
                out = stack.enter_context(zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED))
            if form in FILES:
                return FILES[form](store, study, out, by, keep_names, masks)
            return OF_A_RUN[form](store, study, out, by, keep_names, run)
    except BaseException:
        if target.is_file():
            target.unlink()
        raise
