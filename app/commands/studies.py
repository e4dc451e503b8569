"""Verbs for images and studies: study import|recipe|add|annotations|export|list|show, watch, roots."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.commands._common import BY, UserError, arg, finish, follow, one_of, open_store, progress, say, verb, verb_group

if TYPE_CHECKING:
    from core.studio.ingest.layouts import Group


AGAIN = arg("--again", action="store_true", help="also import images that were erased from this home")
SAMPLING = one_of(
    arg("--fps", type=float, help="frames to take per second of a recording (default: 1, or as in the study)"),
    arg("--every", type=int, metavar="N", help="take every N-th frame of a recording"),
)


def _sampling_of(args):
    from core.studio.ingest.video import Sampling

    if args.every is not None:
        return Sampling(every=args.every)
    return None if args.fps is None else Sampling(per_second=args.fps)


verb_group("study", "import images as a study; add to one; list and show studies")


@verb(
    "study add",
    arg("name"),
    arg("paths", nargs="+", metavar="PATH"),
    arg("--copy", action="store_true", help="copy them into the home instead of referring to them"),
    AGAIN,
    SAMPLING,
)
def run_study_add(args) -> int:
    """Add files, folders or recordings to a study, as test cases without a label."""
    from core.studio.ingest.studies import add_cases, files_at

    files = [file for path in args.paths for file in files_at(path)]
    with progress(args, f"Adding to {args.name}") as show:
        report = add_cases(
            open_store(args),
            args.name,
            files,
            on_progress=lambda i, n: show(i, n, ""),
            sampling=_sampling_of(args),
            copy=args.copy,
            by=BY,
            again=args.again,
        )
    say(args, f"{report.study}: {report.accepted} test cases added")
    return _print_report(args, report)


@verb(
    "study recipe",
    arg("recipe", help="hyperkvasir, lag, liu or covidx"),
    arg("folder", help="folder of the unpacked download"),
    arg("--name", help="name of the study (default: name of the recipe)"),
    arg("--size", type=int, help="also prepare image arrays of this side length, in pixels"),
)
def run_study_recipe(args) -> int:
    """Import one of the paper's studies from its unpacked official download.

    The splits are written to a CSV that can be shared.
    """
    from pathlib import Path

    from core.studio.ingest import recipes

    store, args.name = open_store(args), args.name or args.recipe
    recipe = recipes.make(args.recipe, Path(args.folder), store.home.path / "recipes" / f"{args.name}.csv")
    say(args, f"{recipe.title}: {', '.join(f'{n} {group}' for group, n in recipe.counts.items())}; {recipe.table}")
    for line in recipe.differences:
        say(args, f"  {line}")
    args.folder, args.copy, args.layout, args.fps, args.every, args.patients = str(recipe.table), False, *[None] * 4
    args.again, args.dry_run, args.answers = False, False, []
    return run_study_import(args)


@verb(
    "study import",
    arg("name"),
    arg("folder"),
    arg("--copy", action="store_true", help="copy the images into the home instead of referring to them"),
    arg(
        "--layout",
        help="table, flat (all images are normal), plain, loco, bmad, mvtec, visa or classes (default: detected)",
    ),
    arg(
        "--class",
        dest="answers",
        action="append",
        default=[],
        metavar="GROUP=LABEL",
        help="meaning of an unclear group of images: normal, abnormal or out; may be given several times",
    ),
    arg("--dry-run", action="store_true", help="show how the folder is read, without storing anything"),
    arg("--size", type=int, help="also prepare image arrays of this side length, in pixels"),
    SAMPLING,
    arg(
        "--patients",
        metavar="PATTERN",
        help="regular expression for file names, whose first group is the patient (not needed for DICOM files)",
    ),
    AGAIN,
)
def run_study_import(args) -> int:
    """Import a study from a folder, or from a CSV with the columns path, split, label and mask."""
    from core.studio.ingest.layouts import ANSWERS, Unclear
    from core.studio.ingest.studies import import_study, plan

    answers = dict(pair.rpartition("=")[::2] for pair in args.answers)
    try:
        if args.dry_run:
            layout, groups = plan(args.folder, args.layout, answers)
            return finish(args, {"layout": layout, "groups": _groups(args, layout, groups)}, "Nothing was stored.")
        with progress(args, f"Importing {args.name}") as show:
            report = import_study(
                open_store(args), args.name, args.folder, args.copy, args.size, lambda i, n: show(i, n, ""),
                args.layout, _sampling_of(args), args.patients, by=BY, again=args.again, answers=answers,
                on_plan=lambda layout, groups: _groups(args, layout, groups),
            )  # fmt: skip
    except Unclear as question:
        listed = _groups(args, question.layout, question.groups)
        unclear = [group["name"] for group in listed if not group["meaning"]]
        say(args, f"Answer with --class '{unclear[0]}={'|'.join(ANSWERS)}', or --layout flat if all are normal.")
        raise UserError(str(question), 1) from None
    counts = ", ".join(f"{n} {group}" for group, n in report.counts.items())
    read_as = report.layout if report.study == args.name else f"{report.study}, {report.layout}"
    say(args, f"{args.name} ({read_as}): {report.accepted} images ({counts}), {report.masks} lesion masks")
    return _print_report(args, report)


def _groups(args, layout: str, groups: Sequence[Group]) -> list[dict]:
    """Prints how each group of images in a folder is read, and returns the groups as dictionaries."""
    say(args, f"Read as {layout}:")
    for group in groups:
        masks = f", {group.masks} with masks" if group.masks else ""
        why = f" ({group.why})" if group.why else ""
        say(args, f"  {group.images:6,} {group.meaning or 'ASKED'}: {group.name}{masks}{why}")
    return [{k: v for k, v in vars(group).items() if k != "samples"} for group in groups]


def _print_report(args, report) -> int:
    for row in report.rejected:
        say(args, f"  skipped {row['path']}: {row['reason']}")
    if report.copies:
        say(args, f"  {report.copies}")
    for row in report.duplicates:
        say(args, f"  {row['kind']} duplicate: {row['train']} (train) and {row['test']} (test)")
    for row in report.odd:
        say(args, f"  unusual header in {row['path']}: {row['reason']}")
    if report.patients:
        say(args, f"  {report.patients} patients; all images of a patient are held out or sampled together")
    for row in report.straddling:
        say(args, f"  the same patient in training ({row['train'][0]}) and in test ({row['test'][0]})")
    if report.burned_in:
        n = len(report.burned_in)
        say(args, f"  {n} {'image' if n == 1 else 'images'} may carry burned-in text; check before you share images")
    return finish(args, report.to_dict())


@verb(
    "study annotations",
    arg("name"),
    arg("file", metavar="FILE", help="JSON or XML file, or a zip of YOLO labels or PNG masks"),
    arg("--format", required=True, help="coco, cvat, label-studio, png or yolo"),
)
def run_study_annotations(args) -> int:
    """Import lesions drawn in another tool, matched by file name."""
    from pathlib import Path

    from core.studio.ingest.studies import show_study
    from core.studio.review.exports.annotations import import_annotations

    store = open_store(args)
    study = show_study(store, args.name)["id"]
    done = import_annotations(store, study, Path(args.file), args.format, BY)
    for why in done["passed_over"]:
        say(args, f"  skipped: {why}")
    cut = f"; {done['cut']} cut off at the image's edge" if done["cut"] else ""
    words = f"{done['findings']} findings on {done['cases']} cases{cut}; {len(done['unknown'])} names without a case"
    return finish(args, {"study": study, **done}, words)


@verb(
    "study export",
    arg("name"),
    arg(
        "form",
        metavar="FORM",
        help="csv, scores, coco, cvat, label-studio, yolo, png, dicom-seg, dicom-labelmap, dicom-map, dicom-sr or "
        "anomalib",
    ),
    arg("--out", required=True, metavar="PATH", help="output file; a zip or a new folder for several files"),
    arg(
        "--run",
        dest="run_id",
        metavar="RUN",
        help="run whose scores and maps are exported (default: the run that Review opens with)",
    ),
    arg(
        "--masks",
        choices=("reference", "readers"),
        default="",
        help="only export lesion masks of this kind (default: a case's reference mask, or its newest mask by a reader)",
    ),
    arg("--names", action="store_true", help="keep names, dates and UIDs as they are"),
)
def run_study_export(args) -> int:
    """Export decisions, masks, heat maps or images in another tool's format."""
    from pathlib import Path

    from core.studio.ingest.studies import show_study
    from core.studio.review.exports.formats import write_form

    store, out = open_store(args), Path(args.out).expanduser().absolute()
    if out.exists():
        raise UserError(f"{out} already exists; give another name")
    study = show_study(store, args.name)["id"]
    result = write_form(store, study, args.form, out, BY, args.names, args.run_id, args.masks)
    if cases := result["burned_in"]["cases"]:
        say(args, f"{len(cases)} of the images may carry burned-in text")
    if result.get("masks"):
        say(args, "Masks: " + ", ".join(f"{count} {kind}" for kind, count in result["masks"].items()))
    for why, count in result.get("left_out", {}).items():
        say(args, f"  skipped {count}: {why}")
    return finish(args, {"study": study, "form": args.form, **result, "out": str(out)}, f"Written: {out}")


@verb("study list")
def run_study_list(args) -> int:
    """List the studies."""
    from core.studio.ingest.studies import list_studies

    rows = list_studies(open_store(args))
    for row in rows:
        name = row["name"] if row["name"] == row["id"] else f"{row['name']} ({row['id']})"
        say(args, f"{name}  {row['cases']} images, {row['masks']} masks  {row['folder']}")
    return finish(args, {"studies": rows}, None if rows else "No studies yet; `study import NAME FOLDER` creates one")


@verb("study show", arg("name"))
def run_study_show(args) -> int:
    """Show the contents of a study: images, masks and runs."""
    from core.studio.ingest.studies import show_study
    from core.studio.runs.records import list_runs

    store = open_store(args)
    study = show_study(store, args.name)
    runs = list_runs(store, study["id"])
    say(args, f"{study['name']} ({study['id']})\n  from {study['folder']}, layout {study['layout']}")
    for group, n in study["counts"].items():
        say(args, f"  {n:6} {group}")
    say(args, f"  {study['masks']:6} with lesion masks")
    for run in runs:
        say(args, f"  run {run['id']}  {run['kind']}  {run['status']}  {run['name']}")
    rows = [{k: run[k] for k in ("id", "kind", "method", "name", "status", "parent", "created")} for run in runs]
    return finish(args, {**study, "runs": rows})


@verb(
    "watch",
    arg("study", nargs="?", help="study whose folder is set or no longer watched (default: all watched studies)"),
    arg("folder", nargs="?", help="folder to watch from now on"),
    arg("--run", metavar="RUN", dest="run_id", help="fit that scores files (default: the fit that Review opens with)"),
    arg("--copy", action="store_true", help="copy the files into the home instead of referring to them"),
    arg("--off", action="store_true", help="stop watching this study's folder"),
    arg("--once", action="store_true", help="import the files that are there now, then stop"),
)
def run_watch(args) -> int:
    """Watch a folder, and import and score new files in it."""
    from core.studio.incoming import watch
    from core.studio.jobs import queue as jobs

    store = open_store(args)
    if args.study:
        _set_watch(args, store)
    if args.off:
        return finish(args, watch.shown(store, args.study), f"{args.study}: no longer watched")
    rows = watch.watched(store)
    if not rows:
        raise UserError("no folder is watched yet: start with watch STUDY FOLDER")
    for row in rows:
        say(args, f"{row['study']}: watching {row['folder']}")
    printed = {} if args.once else watch.ended(store)
    if args.once:
        watch.look(store)
        time.sleep(watch.SETTLE)
        for job in watch.look(store):
            follow(args, store, job, "Importing new cases")
        _print_ended(args, store, printed)
        watched = [watch.shown(store, row["study"]) for row in rows]
        for watch_row in watched:
            say(args, f"{watch_row['study']}: {watch_row['message'] or 'nothing new'}")
        return finish(args, {"watched": watched})
    say(args, "Press Ctrl-C to stop; the app also watches while it is open")
    with watch.Lookout(store):
        while True:
            time.sleep(1)
            jobs.reap(store)
            printed = _print_ended(args, store, printed)


def _set_watch(args, store) -> None:
    from core.studio.incoming import watch

    before = watch.get_watch(store, args.study)
    folder = args.folder or (before or {}).get("folder")
    if folder is None:
        raise UserError(f"no folder is watched for {args.study} yet: start with watch {args.study} FOLDER")
    run_id = args.run_id or (before or {}).get("run")
    copy = args.copy or bool((before or {}).get("copy"))
    watch.set_watch(store, args.study, folder, "command line", run_id, not args.off, copy)


def _print_ended(args, store, printed: dict[tuple, str]) -> dict[tuple, str]:
    """Prints a line for each file that was finished since the last call; returns the outcomes of all finished files."""
    from core.studio.incoming import watch

    endings = watch.ended(store)
    for (study, path), outcome in endings.items():
        if printed.get((study, path)) != outcome:
            say(args, f"{study}: {path}: {outcome}")
    return endings


verb_group("roots", "Folders that administrators may import from on the page, if readers sign in")


@verb("roots add", arg("folder"))
def run_roots_add(args) -> int:
    """Add a folder from which administrators may import."""
    from core.studio.ingest import roots

    folder = roots.allow_folder(open_store(args), args.folder, BY)
    return finish(args, {"folder": folder}, f"Administrators may import from {folder}")


@verb("roots remove", arg("folder"))
def run_roots_remove(args) -> int:
    """Stop allowing administrators to import from a folder."""
    from core.studio.ingest import roots

    roots.forget(open_store(args), args.folder, BY)
    return finish(args, {"removed": args.folder}, f"Administrators may no longer import from {args.folder}")


@verb("roots list")
def run_roots_list(args) -> int:
    """List the folders from which administrators may import."""
    from core.studio.ingest import roots

    folders = roots.named(open_store(args))
    for folder in folders:
        say(args, folder)
    return finish(args, {"roots": folders}, None if folders else "The list is empty; `roots add FOLDER` adds a folder")
