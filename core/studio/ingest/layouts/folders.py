"""Interprets a folder by the names of its subfolders, which state splits, classes and lesion masks.

`LAYOUTS` lists common layouts, but one rule applies to all: the innermost folder that names a split sets the split, and
the innermost folder that names a class sets the class (see `words.meaning`). A class of unknown meaning is abnormal if
another class is called normal. If names classify only some of the images, a person is asked about the others.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from core.studio.ingest.layouts.entries import Entry, walk
from core.studio.ingest.layouts.words import SUGGESTS, Meaning, abnormal_word, meaning
from core.studio.ingest.names import PathIndex, folded, stem, without_ending
from core.studio.ingest.patients import TABLE as PATIENTS
from core.studio.ingest.patients import listed
from core.studio.ingest.roots import Within

LAYOUTS = {  # name of a layout: description of its folders, folders that distinguish it
    "plain": ("train/normal, test/normal, test/abnormal, test/mask", {"train/normal", "test/abnormal"}),
    "loco": ("train/good, validation/good, test/KIND, ground_truth/KIND/NNN", {"validation/good", "ground_truth"}),
    "bmad": ("train/good, valid/good, test/good, test/Ungood, with img and label", {"train/good", "test/ungood"}),
    "mvtec": ("train/good, test/good, test/KIND, ground_truth/KIND", {"train/good"}),
    "visa": ("Data/Images/Normal, Data/Images/Anomaly, Data/Masks/Anomaly", {"images/normal", "images/anomaly"}),
    "classes": ("a folder of normal images and others, each with or without train, val and test", set()),
}
TABLES = (".csv", ".tsv", ".xlsx", ".xls", ".ods")
ANNOTATIONS = (".json", ".xml", ".txt")  # files next to images that may tell which images are abnormal
LEFT = "training uses only normal images; abnormal images of {} are skipped, because test has its own"


@dataclass(frozen=True)
class Place:
    """Split, class and other properties of a file that follow from the names of its folders."""

    split: str | None = None
    label: str | None = None  # as in `Meaning`
    mask: bool = False  # whether the file is a lesion mask
    kind: str = ""  # name of a specific class
    group: str = "."  # path down to the innermost folder that names a split or a class
    reduced: tuple[str, ...] = ()  # names of the folders that an image and its mask share


def place_of(folders: tuple[str, ...], normal_elsewhere: bool = False, numbered: Container[str] = ()) -> Place:
    """Combines the meanings of the names of nested folders, which are given from the outermost to the innermost.

    normal_elsewhere: Whether another folder is called normal, so that a class of unknown meaning is abnormal.
    numbered: Names such as ward1 (see `_numbered`), which do not name classes inside a folder called normal.
    """
    split, label, mask, kind, last, reduced = None, None, False, "", 0, list[str]()
    for number, name in enumerate(folders, 1):
        word = meaning(name)
        if word.label == "other" and label == "normal" and name in numbered:
            continue
        if word.label == "mask":
            mask = True
        elif word.label is not None:
            label, kind = _deeper(label, word, normal_elsewhere), "" if word.generic or word.label == "normal" else name
        if word.split or word.label not in (None, "mask"):
            split, last = word.split or split, number
        if not word.generic:
            reduced.append(folded(name))
    return Place(split, label, mask, kind, "/".join(folders[:last]) or ".", tuple(reduced))


def _numbered(folders: Iterable[tuple[str, ...]]) -> set[str]:
    """Returns folder names that are numbers, or words that occur with several numbers, such as ward1 and ward2."""
    alike = defaultdict[str, set[str]](set)
    for name in {name for path in folders for name in path}:
        if match := re.fullmatch(r"(\D*?)[-_ ]?\d+", name):
            alike[folded(match[1])].add(name)
    return {name for word, names in alike.items() if len(names) > 1 or not word for name in names}


def _deeper(above: str | None, inner: Meaning, normal_elsewhere: bool) -> str | None:
    if inner.label == "other":
        if above in ("abnormal", "unknown"):
            return above
        return "doubt" if above in ("normal", "doubt") else "abnormal" if normal_elsewhere else "other"
    return "doubt" if inner.label == "normal" and above == "abnormal" else inner.label


@dataclass(eq=False)
class _File:
    """Image or mask. `inside` is the path of the file relative to the imported folder."""

    inside: str
    place: Place
    masks: list[str] = field(default_factory=list)

    @property
    def reduced(self) -> str:
        return "/".join([*self.place.reduced, PurePosixPath(self.inside).name])


class Tree:
    """Files of a folder, interpreted by the names of the subfolders."""

    def __init__(self, root: Path, within: Within) -> None:
        self.root, self.refused, documents = root, list[Entry](), list[PurePosixPath]()
        by_folder: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for path, problem, may_be_image in walk(root, within):
            inside = PurePosixPath(path.relative_to(root).as_posix())
            if problem:
                self.refused.append(Entry(path, problem=problem))
            elif may_be_image:
                by_folder[inside.parts[:-1]].append(inside.name)
            elif inside.suffix.lower() in ANNOTATIONS + TABLES and inside.name.lower() != PATIENTS:
                documents.append(inside)
        skipped = _wrapper(list(by_folder))
        normal = any(p.label == "normal" and not p.mask for p in (place_of(f[skipped:]) for f in by_folder))
        self.images, self.masks, stems = list[_File](), list[_File](), set[str]()
        patients, numbered = self._patients(by_folder), _numbered(by_folder)
        for folders, names in by_folder.items():
            is_patient = folders in patients
            clues = Place(group="/".join(folders)) if is_patient else place_of(folders[skipped:], normal, numbered)
            here = {folded(stem(name)) for name in names}
            stems |= here
            for name in names:
                short = without_ending(stem(name))
                mask = clues.mask or (short is not None and folded(short) in here)
                (self.masks if mask else self.images).append(_File("/".join([*folders, name]), clues))
        self.beside = [d.as_posix() for d in documents if d.suffix.lower() != ".txt" or folded(d.stem) in stems]
        self.says = bool(self.masks) or any(file.place.split or file.place.label for file in self.images)

    def _patients(self, by_folder: Mapping[tuple[str, ...], list[str]]) -> set[tuple[str, ...]]:
        """Returns the folders that contain one patient each according to `patients.csv`; they do not name classes."""
        whose = listed(self.root)
        patients_of = {
            inside: {whose(self.root.joinpath(*inside, name)) for name in names} for inside, names in by_folder.items()
        }
        single = {inside: patients.pop() for inside, patients in patients_of.items() if inside and len(patients) == 1}
        counts = Counter(single.values())
        return {inside for inside, patient in single.items() if patient and counts[patient] == 1 < len(counts)}

    def layout(self) -> str:
        """Returns the name of the layout (key of LAYOUTS), or "flat" if no folder name has a meaning."""
        paths = {f"/{folded(file.inside)}" for file in self.images + self.masks} if self.says else set()
        fitting = (n for n, (_, signs) in LAYOUTS.items() if all(any(f"/{s}/" in p for p in paths) for s in signs))
        return next(fitting) if self.says else "flat"

    def match(self) -> list[Entry]:
        """Assigns each mask to its image; returns an entry with a `problem` for each mask that fits no single image."""
        abnormal = PathIndex((i.reduced, i) for i in self.images if i.place.label != "normal")
        normal = PathIndex((i.reduced, i) for i in self.images if i.place.label == "normal")
        problems = []
        for mask in self.masks:
            fits = [i for i in abnormal.find(mask.reduced, nested=True) if _belong(mask, i)]
            normal_fits = normal.find(mask.reduced, nested=True) if not fits else ()
            fits += [i for i in normal_fits if mask.place.reduced in ((), i.place.reduced) and _splits_agree(mask, i)]
            fits = [i for i in fits if i.place.split == (mask.place.split or "test")] or fits
            if len(fits) == 1:
                fits[0].masks.append(mask.inside)
            else:
                several = f"a mask that fits several images: {', '.join(i.inside for i in fits[:3])}"
                problem = several if fits else "a mask whose name fits no image"
                problems.append(Entry(self.root / mask.inside, "test", problem=problem))
        return problems

    def entries(self, answers: Mapping[str, str]) -> list[Entry]:
        """Returns an entry for each image, with its masks, and an entry with a `problem` for each skipped file.

        `answers` maps names of groups to classes ("normal", "abnormal" or "out"). If neither a name nor an answer
        classifies an image, its entry has a `doubt`.
        """
        problems, read = self.match(), [(image, *self._read(image, answers)) for image in self.images]
        test = any(label == "abnormal" and image.place.split == "test" for image, label, *_ in read)
        listed = list(self.refused)
        for image, label, group, doubt in read:
            split, problem = image.place.split or "train", None
            if label in ("abnormal", "unknown") and split != "test":
                problem = LEFT.format(split) if test and image.place.split and label == "abnormal" else None
                split = split if problem else "test"
            if label == "out":
                problem = "left out on request"
            masks = tuple(self.root / mask for mask in sorted(image.masks))
            tags = (image.place.kind,) if label == "abnormal" and image.place.kind else ()
            listed.append(Entry(self.root / image.inside, split, label, masks, tags, problem, group=group, doubt=doubt))
        return listed + problems

    def _read(self, image: _File, answers: Mapping[str, str]) -> tuple[str, str, str | None]:
        """Returns (label of an image, group of the image, reason to ask a person about that group or None)."""
        clues, name = image.place, PurePosixPath(image.inside)
        label, group, doubt = clues.label or "", clues.group, None
        word = None if clues.label or self.says else abnormal_word(stem(name.name)) or without_ending(stem(name.name))
        if label in ("other", "doubt"):
            doubt = "the meaning of this name is unknown" if label == "other" else "this name contradicts itself"
        elif not label and image.masks:
            label = "abnormal"
        elif not label and clues.split == "test":
            label = "unknown"
        elif not label and self.masks:
            group, doubt = f"{group} (without a mask)", "other images have lesion masks"
        elif not label and self.says:
            doubt = "its folder names no class"
        elif word:
            group, doubt = f"{group} ({word if abnormal_word(name.stem) else 'masks'})", SUGGESTS
        elif not label and self.beside:
            doubt = f"{', '.join(self.beside[:3])} may say which are abnormal"
        elif not label and (word := abnormal_word(self.root.name)):
            doubt = f"the folder is called {word}"
        answer = answers.get(group)
        return answer or label or "normal", group, None if answer else doubt


def _wrapper(folders: list[tuple[str, ...]]) -> int:
    """Returns the number of outer folders that only name the data set, such as `colon` in `colon/train/good`."""
    common = list(folders[0]) if folders else []
    for inside in folders:
        while tuple(common) != inside[: len(common)]:
            common.pop()
    for number in range(len(common), 0, -1):
        outer = meaning(common[number - 1])
        below = (place_of(inside[number:]) for inside in folders)
        if outer.label in ("other", "abnormal", "doubt") and any(p.label == "normal" and not p.mask for p in below):
            return number
    return 0


def _belong(mask: _File, image: _File) -> bool:
    """Returns whether a mask may belong to an image, so that their folders and splits do not contradict each other."""
    if not _splits_agree(mask, image):
        return False
    ours, theirs = mask.place.reduced, image.place.reduced
    if ours and ours[-1] == folded(stem(PurePosixPath(image.inside).name)):  # a folder named like the image
        ours = ours[:-1]
    return _within(ours, theirs) or _within(theirs, ours)


def _splits_agree(mask: _File, image: _File) -> bool:
    """Returns whether a mask and an image may share a split. For a normal image, a mask without a split is in test."""
    split = mask.place.split or "test" if image.place.label == "normal" else mask.place.split
    return not split or not image.place.split or split == image.place.split


def _within(few: tuple[str, ...], many: tuple[str, ...]) -> bool:
    remaining: Iterator[str] = iter(many)
    return all(name in remaining for name in few)
