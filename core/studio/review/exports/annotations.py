"""Lesions drawn in other tools, both ways: CVAT's XML, Label Studio's JSON and YOLO in and out; COCO and PNG masks in.

In: a case is found by its file's name, as imported or as this studio's own exports call it. Each author's shapes of a
case become one lesion mask, drawn by hand, and a finding for each shape; both are under "author (tool)", so that they
are never a reader's own and stay hidden from whoever reads blind. Everything is read before anything is stored.
"""

from __future__ import annotations

import io
import json
import math
import re
import urllib.parse
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from typing import Any

import cv2
import numpy as np
from PIL import Image

from core.studio.db import audit
from core.studio.db.foreign import Refused, parts_of, plain, refusing
from core.studio.db.store import Store, now
from core.studio.ingest.masks import add_mask, decode_mask, encode_mask
from core.studio.review.decisions import finding_labels, insert_finding
from core.studio.review.exports import anomalib, pictures
from core.studio.review.exports.tables import Names

LARGEST = 256 << 20  # bytes of a file, and of all that a zip unpacks to
MOST_FILES, MOST_SHAPES, MOST_POINTS = 100_000, 200_000, 5_000_000
TOOLS = {"coco": "COCO", "cvat": "CVAT", "label-studio": "Label Studio", "png": "PNG", "yolo": "YOLO"}
OUT = {"cvat": "zip", "label-studio": "json", "yolo": "zip"}  # suffixes of the files that go out


@dataclass
class Shape:
    """One drawn lesion. polygon: (N, 2) of x, y in pixels, or in shares of the image. size: width, height as drawn.

    box: x0, y0, x1, y1 likewise. runs: lengths, background first, of `window` (x, y, width, height), down the columns
    or along the rows. png: a mask as a file.
    """

    file: str
    label: str = pictures.DEFAULT
    author: str | None = None
    created: str | None = None
    size: tuple[int, int] | None = None
    shares: bool = False
    polygon: np.ndarray | None = None
    box: tuple[float, ...] | None = None
    runs: list[int] | None = None
    window: tuple[int, ...] = ()
    columns: bool = True
    png: bytes | None = None


def import_annotations(store: Store, study: str, file: Path, format: str, by: str) -> dict:
    """Stores the lesions of another tool's file as masks and findings of the study's cases.

    Returns {"cases", "findings", "unknown": names without a case, "passed_over": shapes of a kind that is not read}.
    Raises Refused, and stores nothing, if the file is not of the format, is too large or fits no case.
    """
    if format not in TOOLS:
        raise Refused(f"annotations come in as one of {', '.join(TOOLS)}, not {format!r}")
    file = Path(file)
    if file.stat().st_size > LARGEST:
        raise Refused(f"A file of annotations has at most {LARGEST:,} bytes.")
    passed: list[str] = []
    known, unknown = _by_name(store, study), set()
    drawn: dict[tuple[int, str], list[tuple[Shape, tuple[float, ...]]]] = {}
    masks: dict[tuple[int, str], bytes] = {}
    with refusing(f"{file.name} is no {TOOLS[format]} file that can be read: it"):
        shapes = sorted(map(_checked, _limited(_READ[format](file, passed))), key=lambda shape: shape.file)
        for shape in shapes:
            case = known.get(PurePosixPath(shape.file.replace("\\", "/")).name)
            if case is None:
                unknown.add(shape.file)
                continue
            mask, box = _pixels(shape, case)
            key = (case["id"], f"{(shape.author or by).strip()[:60]} ({TOOLS[format]})")
            drawn.setdefault(key, []).append((shape, box))
            if mask is not None:
                if key in masks:
                    mask |= decode_mask(masks[key]).astype(bool)
                masks[key] = encode_mask(mask)
    if not drawn:
        raise Refused(f"Nothing was stored: {file.name} names no image of this study.")
    findings = 0
    with store.write():
        for key, several in drawn.items():
            case_id, author = key
            latest = max(_when(shape.created) for shape, _ in several)
            version = None
            if key in masks:
                version = add_mask(store, case_id, masks[key], "hand", author, created=latest)
            for shape, box in several:
                row = {"label": shape.label.strip()[:60] or pictures.DEFAULT, "comment": "", "mask_version": version}
                insert_finding(store, case_id, author, row, box, _when(shape.created))
                findings += 1
        after = {"format": format, "cases": len({case for case, _ in drawn}), "findings": findings}
        audit.record(store, by, "annotations", study=study, after=after | {"unknown": len(unknown)})
    return {**after, "unknown": sorted(unknown)[:1000], "passed_over": sorted(set(passed))}


def _checked(shape: Shape) -> Shape:
    for text in (shape.file, shape.label, shape.author or ""):
        plain(text)
    return shape


def _by_name(store: Store, study: str) -> dict[str, dict]:
    """Name of a file, with and without its suffix and as exports call it -> its case; names of two cases are none."""
    cases = store.query("SELECT * FROM cases WHERE study = ?", [study])
    if not cases:
        raise Refused(f"there is no study {study!r} with images")
    kept, remapped = Names(store, study, True), Names(store, study)
    known: dict[str, dict | None] = {}
    for case in cases:
        plain = [names.case(case) for names in (kept, remapped)]
        own = {case["name"], *plain, *(f"{name}.png" for name in plain)}
        own |= {PurePosixPath(name).name for name in own}
        own |= {pictures.file_name(name, case["id"]) + ".png" for name in plain}
        own |= {f"{anomalib.stem_of(name, case['id'])}{end}.png" for name in plain for end in ("", anomalib.MASK)}
        for name in own:
            known[name] = None if name in known else case
    return {name: case for name, case in known.items() if case is not None}


def _limited(shapes: Iterator[Shape]) -> Iterator[Shape]:
    points = 0
    for number, shape in enumerate(shapes, 1):
        points += 0 if shape.polygon is None else len(shape.polygon)
        points += 0 if shape.runs is None else len(shape.runs)
        if number > MOST_SHAPES or points > MOST_POINTS:
            raise Refused(f"A file has at most {MOST_SHAPES:,} shapes with {MOST_POINTS:,} points in all.")
        yield shape


def _when(text: str | None) -> str:
    """Takes a tool's time as this home writes times; now, if it is none or lies in the future."""
    try:
        given = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
        given = given if given.tzinfo else given.replace(tzinfo=timezone.utc)
        utc = given.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return min(utc, now())
    except (ValueError, OverflowError):
        return now()


def _pixels(shape: Shape, case: dict) -> tuple[np.ndarray | None, tuple[float, ...]]:
    """Bool (H, W) of the case's image, None for a box alone; and the box. ValueError if it does not lie there."""
    w, h = case["width"], case["height"]
    if shape.size is not None and shape.size != (w, h):
        raise Refused(f"{shape.file} was drawn on {shape.size[0]} x {shape.size[1]} pixels; its image is {w} x {h}.")
    scale = (w, h) if shape.shares else (1, 1)
    if shape.box is not None:
        box = [v * scale[i % 2] for i, v in enumerate(shape.box)]
        _demand_inside(shape, np.array(box).reshape(2, 2), w, h)
        x0, y0, x1, y1 = (min(max(v, 0), (w, h)[i % 2]) for i, v in enumerate(box))
        return None, (min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
    mask = np.zeros((h, w), np.uint8)
    if shape.polygon is not None:
        points = np.asarray(shape.polygon, float).reshape(-1, 2) * scale
        _demand_inside(shape, points, w, h)
        cv2.fillPoly(mask, [np.rint(points).clip(0, [w - 1, h - 1]).astype(np.int32)], 1)
    elif shape.runs is not None:
        x, y, wide, high = shape.window or (0, 0, w, h)
        if min(x, y) < 0 or min(wide, high) < 1 or x + wide > w or y + high > h or min(shape.runs, default=-1) < 0:
            raise Refused(f"A mask of {shape.file} does not lie in the image.")
        if sum(shape.runs) != wide * high:
            raise Refused(f"A mask of {shape.file} has {sum(shape.runs):,} pixels, its place {wide * high:,}.")
        flat = np.repeat(np.arange(len(shape.runs)) % 2, shape.runs).astype(np.uint8)
        part = flat.reshape(wide, high).T if shape.columns else flat.reshape(high, wide)
        mask[y : y + high, x : x + wide] = part
    elif shape.png is not None:
        try:
            with Image.open(io.BytesIO(shape.png), formats=["PNG"]) as image:
                if image.size != (w, h):
                    raise Refused(f"The mask {shape.file} is {image.size[0]} x {image.size[1]}; its image {w} x {h}.")
                mask = (np.asarray(image.convert("L")) > 0).astype(np.uint8)
        except (OSError, SyntaxError, Image.DecompressionBombError):
            raise Refused(f"The mask {shape.file} is no PNG file that can be read.") from None
    if not mask.any():
        raise Refused(f"A mask of {shape.file} is empty.")
    x, y, wide, high = cv2.boundingRect(mask)
    return mask.astype(bool), (x, y, x + wide, y + high)


def _demand_inside(shape: Shape, points: np.ndarray, w: int, h: int) -> None:
    if not len(points) or not np.isfinite(points).all() or (points < -1).any() or (points > [w + 1, h + 1]).any():
        raise Refused(f"A shape of {shape.file} does not lie in the image of {w} x {h} pixels.")


# What each tool writes.


def _coco(file: Path, passed: list[str]) -> Iterator[Shape]:
    body = json.loads(file.read_text("utf-8"))
    images = {image["id"]: image for image in body["images"]}
    labels = {kind["id"]: str(kind["name"]) for kind in body.get("categories", ())}
    for drawn in body["annotations"]:
        image, kept = images[drawn["image_id"]], drawn.get("segmentation")
        common: dict[str, Any] = {
            "file": str(image["file_name"]),
            "label": labels.get(drawn.get("category_id"), pictures.DEFAULT),
            "size": (int(image["width"]), int(image["height"])) if "width" in image else None,
        }
        if isinstance(kept, dict):
            counts, (h, w) = kept["counts"], kept["size"]
            runs = _run_lengths(counts) if isinstance(counts, str) else [int(n) for n in counts]
            yield Shape(**(common | {"size": (int(w), int(h))}), runs=runs)
        elif kept:
            for points in kept:
                yield Shape(**common, polygon=np.array(points, float).reshape(-1, 2))
        else:
            x, y, w, h = (float(v) for v in drawn["bbox"])
            yield Shape(**common, box=(x, y, x + w, y + h))


def _run_lengths(text: str) -> list[int]:
    """COCO's compressed run lengths: six bits a letter, the lowest first, each a difference from the last but one."""
    runs: list[int] = []
    value = shift = 0
    for letter in text.encode("ascii"):
        code = letter - 48
        if not 0 <= code < 64 or shift > 40:
            raise Refused("run lengths of COCO have letters of another kind")
        value |= (code & 31) << shift
        shift += 5
        if not code & 32:
            value -= (1 << shift) if code & 16 else 0
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value = shift = 0
    return runs


def _cvat(file: Path, passed: list[str]) -> Iterator[Shape]:
    if zipfile.is_zipfile(file):
        text = next((body.decode() for name, body in _unpacked(file) if name.endswith(".xml")), "")
    else:
        text = file.read_text("utf-8")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:  # CVAT writes none; entities could grow without end
        raise Refused(f"{file.name} declares a document type or entities; CVAT's files have none.")
    top = ElementTree.fromstring(text)
    if top.tag != "annotations":
        raise Refused(f"{file.name} is no CVAT file: it begins with <{top.tag[:60]}>.")
    meta = top.find("meta")
    author = created = None
    if meta is not None:
        author = meta.findtext(".//assignee/username") or meta.findtext(".//owner/username")
        created = meta.findtext(".//updated") or meta.findtext("dumped")
    for image in top.iter("image"):
        common: dict[str, Any] = {"file": image.attrib["name"], "author": author, "created": created}
        common["size"] = (int(image.attrib["width"]), int(image.attrib["height"]))
        for drawn in image:
            own = drawn.attrib
            one = {**common, "label": own.get("label", pictures.DEFAULT)}
            if drawn.tag == "polygon":
                points = [[float(v) for v in pair.split(",")] for pair in own["points"].split(";")]
                yield Shape(**one, polygon=np.array(points))
            elif drawn.tag == "box":
                yield Shape(**one, box=tuple(float(own[k]) for k in ("xtl", "ytl", "xbr", "ybr")))
            elif drawn.tag == "mask":
                runs = [int(n) for n in own["rle"].split(",")]
                window = tuple(int(own[k]) for k in ("left", "top", "width", "height"))
                yield Shape(**one, runs=runs, window=window, columns=False)
            elif drawn.tag == "ellipse":
                x, y, rx, ry = (float(own[k]) for k in ("cx", "cy", "rx", "ry"))
                yield Shape(**one, polygon=_ellipse(x, y, rx, ry))
            else:
                passed.append(drawn.tag[:60])


def _ellipse(x: float, y: float, rx: float, ry: float) -> np.ndarray:
    turn = np.linspace(0, 2 * math.pi, 72, endpoint=False)
    return np.stack([x + rx * np.cos(turn), y + ry * np.sin(turn)], 1)


def _label_studio(file: Path, passed: list[str]) -> Iterator[Shape]:
    for task in json.loads(file.read_text("utf-8")):
        data = task["data"]
        address = task.get("file_upload") or data.get("image") or next((v for v in data.values() if v), "")
        address = urllib.parse.unquote(str(address).split("?d=")[-1])
        name = re.sub(r"^[0-9a-f]{8}-", "", PurePosixPath(address.replace("\\", "/")).name)
        for kept in task.get("annotations", ()):
            if kept.get("was_cancelled"):
                continue
            who = kept.get("completed_by")
            author = who.get("email") or who.get("username") if isinstance(who, dict) else who
            for drawn in kept["result"]:
                value, kind = drawn["value"], drawn["type"]
                size = (int(drawn["original_width"]), int(drawn["original_height"]))
                label = (value.get(kind) or [pictures.DEFAULT])[0]
                one: dict[str, Any] = {
                    "file": name, "label": str(label), "size": size, "shares": True, "created": kept.get("created_at"),
                    "author": None if author is None else f"user {author}" if isinstance(author, int) else str(author),
                }  # fmt: skip
                if kind == "polygonlabels":
                    yield Shape(**one, polygon=np.array(value["points"], float).reshape(-1, 2) / 100)
                elif kind == "rectanglelabels" and not value.get("rotation"):
                    x, y, w, h = (float(value[k]) / 100 for k in ("x", "y", "width", "height"))
                    yield Shape(**one, box=(x, y, x + w, y + h))
                elif kind == "ellipselabels" and not value.get("rotation"):
                    place = (float(value[k]) / 100 for k in ("x", "y", "radiusX", "radiusY"))
                    yield Shape(**one, polygon=_ellipse(*place))
                else:
                    passed.append(str(kind)[:60])


def _unpacked(file: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a zip, held in memory one by one and counted; none is written under the name it bears."""
    left = LARGEST
    with zipfile.ZipFile(file) as given:
        if len(given.infolist()) > MOST_FILES:
            raise Refused(f"{file.name} holds more than {MOST_FILES:,} files.")
        for entry in given.infolist():
            parts_of(entry.filename.rstrip("/"))
            if entry.is_dir():
                continue
            with given.open(entry) as opened:
                body = opened.read(left + 1)
            left -= len(body)
            if left < 0:
                raise Refused(f"{file.name} unpacks to more than {LARGEST:,} bytes.")
            yield entry.filename, body


def _yolo(file: Path, passed: list[str]) -> Iterator[Shape]:
    texts = {name: body.decode() for name, body in _unpacked(file) if name.endswith((".txt", ".yaml"))}
    labels: dict[int, str] = {}
    for name, text in texts.items():
        if PurePosixPath(name).name == "classes.txt":
            labels |= dict(enumerate(text.splitlines()))
        elif name.endswith(".yaml"):
            labels |= {int(i): said.strip(" '\"") for i, said in re.findall(r"^\s+(\d+):\s*(.+)$", text, re.M)}
    for name, text in texts.items():
        path = PurePosixPath(name)
        if path.suffix != ".txt" or path.name == "classes.txt":
            continue
        for line in text.splitlines():
            kind, *values = line.split()
            one: dict[str, Any] = {"file": path.stem, "shares": True}
            one["label"] = labels.get(int(kind), pictures.DEFAULT)
            if len(values) == 4:
                x, y, w, h = (float(v) for v in values)
                yield Shape(**one, box=(x - w / 2, y - h / 2, x + w / 2, y + h / 2))
            else:
                yield Shape(**one, polygon=np.array(values, float).reshape(-1, 2))


def _png(file: Path, passed: list[str]) -> Iterator[Shape]:
    for name, body in _unpacked(file):
        if name.endswith(".png"):
            yield Shape(PurePosixPath(name).name, png=body)


_READ = {"coco": _coco, "cvat": _cvat, "label-studio": _label_studio, "png": _png, "yolo": _yolo}


def export_annotations(
    store: Store, study: str, target: Path, format: str, by: str, keep_names: bool = False, masks: str = ""
) -> dict:
    """Writes masks as one file of a tool, a shape for each component; {"shapes", "masks", "file", "burned_in"}.

    One mask at a time is in memory. CVAT has each pixel; a polygon of Label Studio or YOLO has no holes. Raises
    NothingToExport if there is no mask. masks: the kind, as `pictures.Masks` takes it.
    """
    names, found, own = Names(store, study, keep_names), pictures.labels_of(store, study), finding_labels(store, study)
    cases, labels, shapes, of = list[int](), list[str](), 0, pictures.Masks(store, study, masks)

    def drawn() -> Iterator[_Drawn]:
        nonlocal shapes
        for row in of:
            mask = decode_mask(row["png"])
            if mask.any():
                one = _Drawn(row, names.case(row), pictures.label_of(row, found, own), mask)
                cases.append(row["id"])
                labels.extend({one.label} - set(labels))
                shapes += pictures.label_map(mask)[1]
                yield one

    target = Path(target)
    if format == "label-studio":
        with target.open("w", encoding="utf-8") as text:
            for part in _joined("[", ",\n", (json.dumps(_task(one, names)) for one in drawn()), "]"):
                text.write(part)
    else:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
            if format == "cvat":
                images = (ElementTree.tostring(_cvat_image(one), encoding="unicode") for one in drawn())
                with out.open("annotations.xml", "w", force_zip64=True) as xml:
                    for part in _joined("<annotations><version>1.1</version>", "", images, "</annotations>"):
                        xml.write(part.encode())
            else:
                for one in drawn():
                    out.writestr(f"labels/{one.name}.txt", _yolo_lines(one, labels.index(one.label)))
                out.writestr("classes.txt", "\n".join(labels))
    if not cases:
        raise pictures.NothingToExport
    burned = pictures.recorded(store, study, by, names, format, cases, shapes=shapes)
    return {"shapes": shapes, "masks": dict(of.counts), "file": str(target), "burned_in": burned}


def _joined(first: str, between: str, parts: Iterable[str], last: str) -> Iterator[str]:
    """`first + between.join(parts) + last`, part by part."""
    yield first
    for number, part in enumerate(parts):
        yield between + part if number else part
    yield last


@dataclass
class _Drawn:
    """A mask that goes out: its case's row, the name and the label that the file gives it."""

    row: dict
    name: str
    label: str
    mask: np.ndarray

    def parts(self) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
        """((x, y, width, height), pixels inside that) of each component."""
        labelled, _ = pictures.label_map(self.mask)
        for i, part in enumerate(pictures.components(self.mask), 1):
            x, y, wide, high = (int(v) for v in part.bbox)
            yield (x, y, wide, high), (labelled[y : y + high, x : x + wide] == i).astype(np.uint8)

    def outlines(self) -> Iterator[np.ndarray]:
        """(N >= 3, 2) of each component, in shares of the image."""
        for (x, y, _, _), alone in self.parts():
            found = cv2.findContours(alone, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE, offset=(x, y))[0][0]
            outline = found.reshape(-1, 2)
            outline = np.concatenate([outline, outline[:1].repeat(max(0, 3 - len(outline)), 0)])  # of a speck
            yield outline / self.mask.shape[::-1]


def _cvat_image(one: _Drawn) -> ElementTree.Element:
    h, w = one.mask.shape
    about = {"id": str(one.row["id"]), "name": f"{one.name}.png", "width": str(w), "height": str(h)}
    image = ElementTree.Element("image", about)
    for box, alone in one.parts():
        place = dict(zip(("left", "top", "width", "height"), map(str, box), strict=True))
        kept = {"label": one.label, "source": "file", "occluded": "0", "rle": ", ".join(map(str, _runs(alone)))}
        ElementTree.SubElement(image, "mask", kept | place)
    return image


def _yolo_lines(one: _Drawn, kind: int) -> str:
    lines = [" ".join(f"{v:.8f}" for v in outline.ravel()) for outline in one.outlines()]
    return "\n".join(f"{kind} {line}" for line in lines)


def _task(one: _Drawn, names: Names) -> dict[str, Any]:
    h, w = one.mask.shape
    results = []
    for i, outline in enumerate(one.outlines(), 1):
        value = {"points": (outline * 100).round(8).tolist(), "polygonlabels": [one.label], "closed": True}
        results.append({"id": f"{one.row['id']}-{i}", "type": "polygonlabels", "from_name": "label",
                        "to_name": "image", "original_width": w, "original_height": h,
                        "image_rotation": 0, "value": value})  # fmt: skip
    who = {"email": names.reader(one.row["drawn_by"]) or "import"}
    kept = {"result": results, "completed_by": who, "created_at": names.when(one.row["drawn"])}
    return {"id": one.row["id"], "data": {"image": f"{one.name}.png"}, "annotations": [kept]}


def _runs(mask: np.ndarray) -> list[int]:
    """Lengths along the rows, background first."""
    flat = mask.ravel()
    edges = np.concatenate([[0], np.flatnonzero(np.diff(flat)) + 1, [flat.size]])
    runs = np.diff(edges).tolist()
    return [0, *runs] if flat[0] else runs
