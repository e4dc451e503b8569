"""Studies: importing a folder, adding cases, listing; bad files are named with their reason and left out."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from core.studio.cache import Progress, StudyArrays, load_arrays
from core.studio.decode import probe, read_image, read_raw
from core.studio.duplicates import file_sha256, near_pairs, perceptual_hash, thumbnail
from core.studio.importers import Entry, read_layout
from core.studio.masks import encode_mask, read_mask
from core.studio.store import NotFound, Store, now, parsed
from core.studio.unreadable import Unreadable

__all__ = [
    "HOLDOUT_FRACTION", "HOLDOUT_LEAST", "ImportReport", "StudyArrays", "add_cases", "delete_study", "import_study",
    "list_studies", "load_arrays", "read_image", "read_raw", "show_study", "slug", "study_row",
]  # fmt: skip

HOLDOUT_FRACTION = 0.25
HOLDOUT_LEAST = 20  # when there are HOLDOUT_FROM normals or more
HOLDOUT_FROM = 60


@dataclass
class ImportReport:
    """What an import did. rejected: [{"path", "reason"}]; duplicates: [{"kind", "train", "test", "correlation"}]."""

    study: str
    layout: str
    accepted: int = 0
    masks: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    rejected: list[dict] = field(default_factory=list)
    duplicates: list[dict] = field(default_factory=list)

    def to_dict(self) -> dict:
        return dict(self.__dict__)


@dataclass
class _Found:
    """One frame that can be read, with what the case's row needs."""

    entry: Entry
    frame: int
    frames: int
    row: dict
    thumb: object
    mask: bytes | None = None
    mask_problem: str | None = None


def slug(name: str) -> str:
    """'My Colon study' -> 'my-colon-study'. ValueError if nothing is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    plain = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60]
    if not plain:
        raise ValueError(f"a study's name needs a letter or a digit; {name!r} has none")
    return plain


def import_study(
    store: Store,
    name: str,
    folder: str | os.PathLike,
    copy: bool = False,
    size: int | None = None,
    on_progress: Progress | None = None,
    layout: str | None = None,
) -> ImportReport:
    """Make a study of a folder (or a CSV). Originals are not altered: referenced, or copied into the home with `copy`.

    `size` also builds the arrays of that size. ValueError if the name is taken or nothing in the folder can be read.
    """
    folder = Path(folder).expanduser().absolute()
    study = slug(name)
    if store.one("SELECT 1 FROM studies WHERE id = ?", [study]):
        raise ValueError(f"there is already a study {study!r}; choose another name")
    layout, entries = read_layout(folder, layout)
    found, rejected = _read_all(entries, on_progress)
    if not found:
        reasons = "; ".join(f"{r['path']!r}: {r['reason']}" for r in rejected[:3])
        raise ValueError(f"none of the {len(entries)} files in {folder} can be read ({reasons})")
    if copy:
        _copy(found, folder if folder.is_dir() else folder.parent, store.home.files / study)
    report = ImportReport(study, layout, rejected=rejected)
    _hold_out(found)
    # Splits side by side, so that a split of the arrays is one slice of a mapped file and need not be copied.
    found.sort(key=lambda f: ("train", "holdout", "test").index(f.row.get("split", f.entry.split)))
    with store.write() as db:
        config = {"copied": copy, "holdout_fraction": HOLDOUT_FRACTION}
        db["studies"].insert(
            {
                "id": study,
                "name": name,
                "created": now(),
                "folder": str(folder),
                "layout": layout,
                "config": json.dumps(config),
            }
        )
        _insert(store, study, found, report)
    report.duplicates = _duplicates(store, study, found)
    store.set_setting(f"import:{study}", report.to_dict())
    if size:
        load_arrays(store, study, size, on_progress)
    return report


def add_cases(
    store: Store,
    study: str,
    paths: Iterable[str | os.PathLike],
    split: str = "test",
    label: str = "unknown",
    on_progress: Progress | None = None,
) -> ImportReport:
    """Add files to a study that exists; those it already has are passed over."""
    row = show_study(store, study)
    known = {c["path"] for c in store.query("SELECT path FROM cases WHERE study = ?", [study])}
    entries = [Entry(Path(p).absolute(), split, label) for p in paths]
    found, rejected = _read_all([e for e in entries if str(e.path) not in known], on_progress)
    report = ImportReport(study, row["layout"], rejected=rejected)
    with store.write():
        _insert(store, study, found, report)
    report.duplicates = _duplicates(store, study, found)
    return report


def _read_all(entries: list[Entry], on_progress: Progress | None) -> tuple[list[_Found], list[dict]]:
    found, rejected, seen = [], [], set()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, (entry, result) in enumerate(zip(entries, pool.map(_read, entries), strict=True), start=1):
            if isinstance(result, str):
                rejected.append({"path": _printable(entry.path), "reason": result})
            elif entry.path in seen:
                rejected.append({"path": _printable(entry.path), "reason": "it is named twice"})
            else:
                found += result
                problem = result[0].mask_problem
                if problem:
                    rejected.append({"path": _printable(entry.mask), "reason": problem})
            seen.add(entry.path)
            if on_progress:
                on_progress(done, len(entries))
    return found, rejected


def _read(entry: Entry) -> list[_Found] | str:
    """All frames of one file, or the reason why it is left out. Nothing a file holds may end the import."""
    if entry.problem:
        return entry.problem
    try:
        str(entry.path).encode("utf-8")
    except UnicodeEncodeError:
        return "its name is not valid UTF-8; rename the file"
    try:
        head = probe(entry.path)
        digest = file_sha256(entry.path)
        found = []
        for frame in range(head.frames):
            image = read_image(entry.path, frame)
            thumb = thumbnail(image)
            row = {
                "width": image.shape[1],
                "height": image.shape[0],
                "bits": head.bits,
                "modality": head.modality,
                "sha256": digest,
                "phash": perceptual_hash(thumb),
            }
            found.append(_Found(entry, frame, head.frames, row, thumb))
    except Unreadable as error:
        return str(error)
    except MemoryError:
        return "not enough memory to decode it"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    except Exception as error:  # a decoder's own fault must not lose the other files
        return f"cannot be decoded: {type(error).__name__}: {error}"
    if entry.mask is not None:
        try:
            if head.frames > 1:
                raise Unreadable("a mask for a file of several frames; the frames were taken without it")
            found[0].mask = encode_mask(read_mask(entry.mask, (found[0].row["width"], found[0].row["height"])))
        except (Unreadable, OSError) as error:
            found[0].mask_problem = str(error)
    return found


def _hold_out(found: list[_Found]) -> None:
    """Hold out a part of the training normals, chosen by content, so the same files give the same part everywhere.

    Frames of one file stay on one side. Nothing is chosen when the layout already names a held-out part.
    """
    train = [f for f in found if f.entry.split == "train"]
    if not train or any(f.entry.split == "holdout" for f in found):
        return
    digests = sorted({f.row["sha256"] for f in train})
    count = round(len(digests) * HOLDOUT_FRACTION)
    if len(digests) >= HOLDOUT_FROM:
        count = max(count, HOLDOUT_LEAST)
    elif len(digests) > 1:
        count = max(count, 1)
    ranked = sorted(digests, key=lambda d: hashlib.sha256(f"holdout {d}".encode()).digest())
    chosen = set(ranked[:count])
    for f in train:
        if f.row["sha256"] in chosen:
            f.row["split"] = "holdout"


def _insert(store: Store, study: str, found: list[_Found], report: ImportReport) -> None:
    db = store.db
    start = db.execute('SELECT coalesce(max("row"), -1) + 1 FROM cases WHERE study = ?', [study]).fetchone()[0]
    for offset, f in enumerate(found):
        name = _printable(f.entry.path.name) + (f" #{f.frame + 1}" if f.frames > 1 else "")
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
        case_id = db["cases"].insert(row).last_pk
        if f.mask is not None:
            db["lesion_masks"].insert(
                {"case_id": case_id, "version": 1, "source": "import", "created": now(), "png": f.mask}
            )
            report.masks += 1
        report.accepted += 1
    rows = store.query('SELECT sha256, frame, split, label FROM cases WHERE study = ? ORDER BY "row"', [study])
    text = "\n".join(f"{r['sha256']} {r['frame']} {r['split']} {r['label']}" for r in rows)
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    db["studies"].update(study, {"fingerprint": fingerprint})
    report.counts = _counts(rows)


def _counts(rows: list[dict]) -> dict[str, int]:
    return dict(sorted(Counter(f"{r['split']} {r['label']}" for r in rows).items()))


def _duplicates(store: Store, study: str, found: list[_Found]) -> list[dict]:
    """Pairs of a training (or held-out) case and a test case that show the same, where one of them is new."""
    fresh = {(str(f.entry.path), f.frame): f.thumb for f in found}
    cases = store.query(
        'SELECT name, path, frame, split, sha256, phash FROM cases WHERE study = ? ORDER BY "row"', [study]
    )
    train = [c for c in cases if c["split"] != "test"]
    test = [c for c in cases if c["split"] == "test"]

    def thumb(case: dict):
        kept = fresh.get((case["path"], case["frame"]))
        return kept if kept is not None else thumbnail(read_image(case["path"], case["frame"]))

    pairs = near_pairs(
        [c["phash"] for c in train], [c["phash"] for c in test], lambda i: thumb(train[i]), lambda j: thumb(test[j])
    )
    named = []
    for i, j, alike in pairs:
        a, b = train[i], test[j]
        if (a["path"], a["frame"]) in fresh or (b["path"], b["frame"]) in fresh:
            kind = "exact" if a["sha256"] == b["sha256"] and a["frame"] == b["frame"] else "near"
            named.append({"kind": kind, "train": a["name"], "test": b["name"], "correlation": round(alike, 4)})
    return named


def _copy(found: list[_Found], root: Path, target: Path) -> None:
    moved: dict[Path, Path] = {}
    for f in found:
        source = f.entry.path
        if source not in moved:
            inside = source.relative_to(root) if source.is_relative_to(root) else Path("elsewhere", *source.parts[1:])
            moved[source] = target / inside
            moved[source].parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, moved[source])
        f.entry = Entry(moved[source], f.entry.split, f.entry.label, f.entry.mask, f.entry.tags)


def _printable(path: str | os.PathLike) -> str:
    """A path as it can be shown in one line: control characters as spaces, stray bytes as '?'."""
    text = os.fspath(path).encode("utf-8", "replace").decode()
    return "".join(" " if unicodedata.category(c) == "Cc" else c for c in text)


def list_studies(store: Store) -> list[dict]:
    """[{"id", "name", "created", "folder", "layout", "config", "fingerprint", "cases", "masks", "counts"}]."""
    return [_with_counts(store, row) for row in store.query("SELECT * FROM studies ORDER BY created, id")]


def study_row(store: Store, study: str) -> dict:
    """The study's own row, nothing counted. NotFound names the studies there are."""
    row = store.one("SELECT * FROM studies WHERE id = ?", [study])
    if row is None:
        known = ", ".join(r["id"] for r in store.query("SELECT id FROM studies ORDER BY id"))
        raise NotFound(f"there is no study {study!r}; there are: {known or 'none yet (study import makes one)'}")
    return row


def show_study(store: Store, study: str) -> dict:
    """One study as `list_studies` gives it. NotFound names the studies there are."""
    return _with_counts(store, study_row(store, study))


def _with_counts(store: Store, row: dict) -> dict:
    counted = store.query(
        "SELECT split || ' ' || label AS part, count(*) AS n FROM cases WHERE study = ? GROUP BY part ORDER BY part",
        [row["id"]],
    )
    counts = {r["part"]: r["n"] for r in counted}
    masks = store.one(
        "SELECT count(DISTINCT m.case_id) AS n FROM lesion_masks m JOIN cases c ON c.id = m.case_id WHERE c.study = ?",
        [row["id"]],
    )
    return {**parsed(row, "config"), "cases": sum(counts.values()), "masks": masks["n"], "counts": counts}


def delete_study(store: Store, study: str) -> None:
    """Delete a study, its runs, caches and copied files. Refused when it has reviews: those are never lost."""
    show_study(store, study)
    query = "SELECT count(*) AS n FROM reviews r JOIN cases c ON c.id = r.case_id WHERE c.study = ?"
    reviews = store.one(query, [study])["n"]
    if reviews:
        raise ValueError(f"{study} holds {reviews} reviews and is kept; export it first if you need the space")
    folders = [r["folder"] for r in store.query("SELECT folder FROM runs WHERE study = ?", [study])]
    with store.write() as db:
        db.execute("UPDATE runs SET parent = NULL WHERE study = ?", [study])
        db.execute("DELETE FROM studies WHERE id = ?", [study])
    for folder in [store.home.path / f for f in folders] + [store.home.cache / study, store.home.files / study]:
        shutil.rmtree(folder, ignore_errors=True)
