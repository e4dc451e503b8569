"""Imports folders as studies, adds cases to existing studies, and reports why files were skipped."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.studio.db import audit
from core.studio.db.store import Store, now
from core.studio.ingest import erased, reader, volumes
from core.studio.ingest.cache import Progress, StudyArrays, load_arrays
from core.studio.ingest.copies import ADDED, copying
from core.studio.ingest.layouts import ANYWHERE, Entry, Group, conclude, confined, files_under, read_layout
from core.studio.ingest.patients import Patients, straddling
from core.studio.ingest.reader import Found
from core.studio.ingest.records import (
    delete_study,
    demand_free_name,
    list_studies,
    show_study,
    slug,
    study_row,
)
from core.studio.ingest.roots import Within
from core.studio.ingest.video import Sampling

__all__ = [
    "ImportReport", "StudyArrays", "add_cases", "delete_study", "demand_free_name", "files_at", "import_study",
    "list_studies", "load_arrays", "show_study", "slug", "study_row",
]  # fmt: skip


@dataclass
class ImportReport:
    """Result of an import.

    rejected: Skipped files and masks, as [{"path", "reason"}].
    duplicates: Pairs of training and test cases with the same picture, as [{"kind", "train", "test", "correlation"}].
    burned_in: Names of the cases whose pictures probably contain burned-in text.
    copies: Warning that many normal images are identical or blank, or "".
    patients: Number of known patients in the study.
    straddling: Patients with images in both training and test, as [{"train": names, "test": names}].
    odd: Files whose headers contain faults, as [{"path", "reason"}].
    """

    study: str
    layout: str
    accepted: int = 0
    masks: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    rejected: list[dict] = field(default_factory=list)
    duplicates: list[dict] = field(default_factory=list)
    burned_in: list[str] = field(default_factory=list)
    copies: str = ""
    patients: int = 0
    straddling: list[dict] = field(default_factory=list)
    odd: list[dict] = field(default_factory=list)

    def to_dict(self) -> dict:
        return dict(self.__dict__)


def import_study(
    store: Store,
    name: str,
    folder: str | os.PathLike,
    copy: bool = False,
    size: int | None = None,
    on_progress: Progress | None = None,
    layout: str | None = None,
    sampling: Sampling | None = None,
    patients: str | None = None,
    within: Within = ANYWHERE,
    by: str | None = None,
    again: bool | None = False,
    answers: Mapping[str, str] | None = None,
    on_plan: Callable[[str, list[Group]], object] | None = None,
) -> ImportReport:
    """Imports a folder or a table as a study. The original files are not changed.

    copy: Whether the files are copied into the home of the studio; otherwise they are read in place.
    size: Side length in pixels for image arrays that are built immediately. By default, they are built on first use.
    layout: Name of the layout of the folder. By default, the layout is detected.
    sampling: Selection of the frames of recordings that become cases; the study stores it for later additions.
    patients: Pattern that finds the patient in a file name (see `ingest.patients`); the study stores the pattern.
    within: Folders in which all files must lie (see `ingest.roots`).
    by: Name of the user for the audit trail. By default, no event is recorded.
    again: Whether erased images may be imported again. If it is None, Question is raised if there are such images.
    answers: Class ("normal", "abnormal" or "out") of each group whose name is unclear; "out" means that it is skipped.
    on_plan: Function that is called with the layout and the groups before any image is read.

    Raises ValueError if the name is in use or no file is readable, and Unclear if a group's class remains unclear.
    """
    folder = Path(folder).expanduser().absolute()
    study = slug(name)
    demand_free_name(store, study)
    layout, entries = read_layout(folder, layout, within, answers)
    groups = conclude(layout, entries, answers)
    if on_plan:
        on_plan(layout, groups)
    sampling = sampling or Sampling()
    whose = Patients(store, folder, patients)
    files, rejected = reader.read_all(entries, on_progress, sampling)
    files = erased.reject_erased(store, files, rejected, again)
    if not files:
        reasons = "; ".join(f"{r['path']!r}: {r['reason']}" for r in rejected[:3])
        raise ValueError(f"none of the {len(entries)} files in {folder} can be read ({reasons})")
    report = ImportReport(study, layout, rejected=rejected, odd=reader.odd_headers(files))
    for f in files:
        f.row["patient"] = whose(f.entry.path, f.patient)
    scales = reader.assign_scales(files, {})
    hold_out(files)
    root = folder if folder.is_dir() else folder.parent
    with copying(store, study, root) if copy else contextlib.nullcontext() as copies:
        if copies:
            copies.add(files, root, store.home.files / study)
        # Each split is contiguous, so that a split of the arrays is one slice of a mapped file and need not be copied.
        files.sort(key=lambda f: ("train", "holdout", "test").index(f.row.get("split", f.entry.split)))
        config = {
            "copied": copy,
            "holdout_fraction": HOLDOUT_FRACTION,
            "video": sampling.to_dict(),
            "patients": patients,
            "scales": scales,
        }
        row = {"id": study, "name": name, "created": now(), "folder": str(folder), "layout": layout}
        with store.write() as db:
            demand_free_name(store, study)  # another import may have taken the name
            erased.forget_erased(store, (name for f in files for name in (f.row["sha256"], f.uid)), again)
            db.table("studies").insert({**row, "config": json.dumps(config)})
            _insert(store, study, files, report, by)
    report.duplicates = _duplicates(store, study, files)
    report.copies = reader.uniformity_warning([f.thumb for f in files if f.row.get("split", f.entry.split) != "test"])
    store.set_setting(f"import:{study}", report.to_dict())
    if size:
        load_arrays(store, study, size, on_progress)
    return report


def plan(
    folder: str | os.PathLike, layout: str | None = None, answers: Mapping[str, str] | None = None
) -> tuple[str, list[Group]]:
    """Interprets a folder without reading any image; returns (name of the layout, groups of images by class).

    Raises Unclear as `import_study` does.
    """
    name, entries = read_layout(Path(folder).expanduser().absolute(), layout, answers=answers)
    return name, conclude(name, entries, answers)


def add_cases(
    store: Store,
    study: str,
    paths: Iterable[str | os.PathLike],
    split: str = "test",
    label: str = "unknown",
    on_progress: Progress | None = None,
    sampling: Sampling | None = None,
    copy: bool = False,
    within: Within = ANYWHERE,
    by: str | None = None,
    again: bool | None = False,
) -> ImportReport:
    """Adds files to an existing study, skips files that the study already contains, and reports duplicates.

    All files get `split` and `label`. `sampling` defaults to that of the study's import. The other arguments have the
    same meaning as in `import_study`.
    """
    row = show_study(store, study)
    study = row["id"]
    existing_paths = {c["path"] for c in store.query("SELECT path FROM cases WHERE study = ?", [study])}
    entries = list(confined((Entry(Path(p).absolute(), split, label) for p in paths), within))
    sampling = sampling or Sampling.of(row["config"])
    frames, rejected = reader.read_all([e for e in entries if str(e.path) not in existing_paths], on_progress, sampling)
    frames = erased.reject_erased(store, frames, rejected, again)
    report = ImportReport(study, row["layout"], rejected=rejected)
    whose = Patients(store, pattern=row["config"].get("patients"))
    for f in frames:
        f.row["patient"] = whose(f.entry.path, f.patient)
    scales_before = row["config"].get("scales") or {}
    scales = reader.assign_scales(frames, scales_before)
    sources = [f.entry.path for f in frames]
    with copying(store, study) if copy else contextlib.nullcontext() as copies:
        if copies:
            # Folders are named by content, because a device may reuse the name of a file.
            files: dict[Path, list[reader.Found]] = {}
            for f in frames:
                files.setdefault(f.entry.path, []).append(f)
            for path, same in files.items():
                copies.add(same, path.parent, store.home.files / study / ADDED / same[0].row["sha256"][:16])
        with store.write() as db:
            erased.forget_erased(store, (name for f in frames for name in (f.row["sha256"], f.uid)), again)
            frames = _not_there(store, study, frames, sources, report)
            if scales != scales_before:
                db.table("studies").update(study, {"config": json.dumps({**row["config"], "scales": scales})})
            _insert(store, study, frames, report, by)
    report.odd = reader.odd_headers(frames)
    report.duplicates = _duplicates(store, study, frames)
    return report


def _not_there(
    store: Store, study: str, frames: list[reader.Found], sources: list[Path], report: ImportReport
) -> list[reader.Found]:
    """Returns the frames that are not cases yet, each once, and reports the files of the other frames as rejected."""
    existing = {(c["path"], c["frame"]) for c in store.query("SELECT path, frame FROM cases WHERE study = ?", [study])}
    new, present = [], dict[Path, None]()
    for f, source in zip(frames, sources, strict=True):
        key = (str(f.entry.path), f.frame)
        if key in existing:
            present[source] = None
        else:
            existing.add(key)
            new.append(f)
    report.rejected += [{"path": reader.printable(p), "reason": "the study already has this file"} for p in present]
    return new


def files_at(path: str | os.PathLike) -> list[Path]:
    """Returns [path] for a file, or all files below a folder that may be images or recordings.

    Raises ValueError if the path does not exist or the folder contains no such file.
    """
    text = os.fspath(path).strip()
    if not text:
        raise ValueError("enter the path of a file or folder on this machine")
    target = Path(text).expanduser().absolute()
    if not target.exists():
        raise ValueError(f"the file or folder {target} does not exist")
    files = list(files_under(target)) if target.is_dir() else [target]
    if not files:
        raise ValueError(f"the folder {target} contains no images")
    return files


def _duplicates(store: Store, study: str, files: list[reader.Found]) -> list[dict]:
    query = 'SELECT name, path, frame, split, sha256, phash FROM cases WHERE study = ? ORDER BY "row"'
    return reader.duplicates(store.query(query, [study]), files)


def _insert(store: Store, study: str, files: list[reader.Found], report: ImportReport, by: str | None) -> None:
    db = store.db
    start = db.execute('SELECT coalesce(max("row"), -1) + 1 FROM cases WHERE study = ?', [study]).fetchone()[0]
    volume = volumes.multi_slice_series(store, study, [f.row.get("series") for f in files])
    for offset, f in enumerate(files):
        name = reader.printable(f.entry.path.name) + (f" #{f.frame + 1}" if f.frames > 1 else "")
        if f.row.get("series") in volume:
            name = volumes.numbered(name, f.row["slice"])
        row = {
            "study": study,
            "name": name,
            "path": str(f.entry.path),
            "frame": f.frame,
            "split": f.entry.split,
            "label": f.entry.label,
            "row": start + offset,
            "added": now(),
            "tags": json.dumps(list(f.entry.tags)),
            **f.row,
        }
        case_id = db.table("cases").insert(row).last_pk
        if f.mask is not None:
            db.table("lesion_masks").insert(
                {"case_id": case_id, "version": 1, "source": "import", "created": now(), "png": f.mask}
            )
            report.masks += 1
        report.accepted += 1
        if f.row.get("burned_in"):
            report.burned_in.append(name)
    query = 'SELECT name, sha256, frame, split, label, patient FROM cases WHERE study = ? ORDER BY "row"'
    rows = store.query(query, [study])
    text = "\n".join(f"{r['sha256']} {r['frame']} {r['split']} {r['label']}" for r in rows)
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    db.table("studies").update(study, {"fingerprint": fingerprint})
    report.counts = dict(sorted(Counter(f"{r['split']} {r['label']}" for r in rows).items()))
    report.patients = len({r["patient"] for r in rows if r["patient"]})
    report.straddling = straddling(rows)
    if by is not None and files:  # without names of files or folders, which may contain the names of patients
        counts = {"accepted": report.accepted, "masks": report.masks}
        audit.record(store, by, "import", study=study, after={**counts, "fingerprint": fingerprint})


HOLDOUT_FRACTION = 0.25
HOLDOUT_LEAST = 20  # minimum number of held-out units (patients, volumes or files) if there are HOLDOUT_FROM or more
HOLDOUT_FROM = 60


def hold_out(files: list[Found]) -> None:
    """Moves a fraction HOLDOUT_FRACTION of the training normals to the split "holdout", if no image has this split yet.

    The choice depends only on file contents, so that it is the same on every machine. Images of one patient and slices
    of one volume stay together, unless there is only one patient or volume. Frames of one file always stay together.
    """
    train = [f for f in files if f.entry.split == "train"]
    if not train or any(f.entry.split == "holdout" for f in files):
        return
    units = next((u for u in (_units(train, True), _units(train, False)) if len(set(u)) > 1), None)
    units = units or [f.row["sha256"] for f in train]
    digests = sorted(set(units))
    count = round(len(digests) * HOLDOUT_FRACTION)
    if len(digests) >= HOLDOUT_FROM:
        count = max(count, HOLDOUT_LEAST)
    elif len(digests) > 1:
        count = max(count, 1)
    ranked = sorted(digests, key=lambda d: hashlib.sha256(f"holdout {d}".encode()).digest())
    chosen = set(ranked[:count])
    for f, unit in zip(train, units, strict=True):
        if unit in chosen:
            f.row["split"] = "holdout"


def _units(train: list[Found], patients: bool) -> list[str]:
    """Returns the unit of each frame (its patient if `patients` is True and it is known, else its volume or file),
    named by the smallest digest of the images in the unit."""
    names = [(patients and f.row.get("patient")) or f.row.get("series") or f.row["sha256"] for f in train]
    least: dict[str, str] = {}
    for name, f in zip(names, train, strict=True):
        least[name] = min(least.get(name, f.row["sha256"]), f.row["sha256"])
    return [least[name] for name in names]
