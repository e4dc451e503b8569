"""Parsers of annotation files from other programs, one for each tool, which yield shapes one by one.

An annotation that cannot be read becomes a shape with a `problem` and does not affect other shapes. A file in another
format is refused as a whole.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import urllib.parse
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import yaml

from core.studio.db.foreign import Refused

LARGEST = 256 << 20  # maximum bytes of a file, and of all files in a zip
MOST_FILES = 100_000
FARTHEST = 1e7  # bound on coordinates, larger than any image
LESION = "lesion"  # label of shapes without a label
ODD = "a shape is not written as this tool writes it"
IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".gif", ".dcm")


@dataclass
class Shape:
    """One annotated lesion from another tool's file, given by `rings`, `box`, `ellipse`, `runs`, `brush` or `image`.

    file: Name of the annotated image, as written in the file.
    author: Name of the annotator, or None if unknown.
    created: Time of the annotation as text, or None if unknown.
    names: Alternative names of the image.
    size: Width and height of the image in the other tool in pixels, or None if unknown.
    shares: Whether coordinates are fractions of the image's width and height instead of pixels.
    rings: Outlines (N, 2) of x and y, whose union is the lesion.
    box: Corners (x0, y0, x1, y1).
    ellipse: Centre and radii (x, y, rx, ry).
    turn: Clockwise rotation of the box or ellipse in degrees.
    corner: Whether the box is rotated about its upper left corner instead of its centre.
    runs: Run lengths of a mask, background first.
    window: Part (x, y, width, height) of the image that `runs` covers, by default the whole image.
    columns: Whether runs go down the columns instead of along the rows.
    brush: Bytes of a brush mask in the encoding of Label Studio.
    image: Bytes of an image file that holds the mask.
    problem: Why the shape cannot be imported, as a phrase for users, or None.
    """

    file: str
    label: str = LESION
    author: str | None = None
    created: str | None = None
    names: tuple[str, ...] = ()
    size: tuple[int, int] | None = None
    shares: bool = False
    rings: list[np.ndarray] = field(default_factory=list)
    box: tuple[float, ...] | None = None
    ellipse: tuple[float, ...] | None = None
    turn: float = 0.0
    corner: bool = False
    runs: list[int] | None = None
    window: tuple[int, ...] = ()
    columns: bool = True
    brush: list[int] | None = None
    image: bytes | None = None
    problem: str | None = None


def item(file: str, read: Callable[..., Shape], *args: Any) -> Shape:
    """Returns `read(*args)` or, if reading fails, a shape of the image `file` whose `problem` states why."""
    try:
        return read(*args)
    except Refused as error:
        return Shape(file, problem=str(error))
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
        return Shape(file, problem=ODD)


def number(value: Any) -> float:
    """Converts a value to a coordinate. Raises Refused unless it is a number of magnitude below FARTHEST."""
    coordinate = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else math.nan
    if not abs(coordinate) < FARTHEST:
        raise Refused("a coordinate is not a number, or lies beyond any picture")
    return coordinate


def _ring(values: Iterable[Any]) -> np.ndarray:
    flat = [number(value) for value in values]
    if len(flat) < 6 or len(flat) % 2:
        raise Refused("an outline has fewer than three corners, or half a corner")
    return np.array(flat).reshape(-1, 2)


def _box(x: Any, y: Any, w: Any, h: Any, share: float = 1.0) -> tuple[float, ...]:
    x, y, w, h = (number(value) / share for value in (x, y, w, h))
    return x, y, x + w, y + h


def _size(width: Any, height: Any) -> tuple[int, int] | None:
    return (int(number(width)), int(number(height))) if width and height else None


def text_of(body: bytes) -> str:
    """Decodes a text file by its UTF-16 byte order mark, else by the encoding in its XML header, else as UTF-8."""
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return body.decode("utf-16")
    named = re.match(rb"<\?xml[^>]*encoding=[\"']([A-Za-z0-9._-]{1,40})[\"']", body)
    return body.decode(named[1].decode() if named else "utf-8-sig").removeprefix("\ufeff")


def unpacked(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the name and bytes of each file in a zip, except hidden files.

    Raises Refused if the zip has too many files or bytes, or a path that leads outside the zip.
    """
    remaining = LARGEST
    with zipfile.ZipFile(file) as archive:
        if len(archive.infolist()) > MOST_FILES:
            raise Refused(f"{file.name} holds more than {MOST_FILES:,} files.")
        for entry in archive.infolist():
            name = entry.filename
            if not entry.flag_bits & 0x800:  # many programs write UTF-8 names without setting the flag for UTF-8
                with contextlib.suppress(UnicodeError):
                    name = name.encode("cp437").decode("utf-8")
            name = name.replace("\\", "/")
            if ".." in name.split("/") or name.startswith("/"):
                raise Refused(f"{file.name} names a file outside itself: {name[:200]!r}")
            hidden = any(segment.startswith(".") or segment == "__MACOSX" for segment in name.split("/"))
            if entry.is_dir() or name.endswith("/") or hidden:
                continue
            with archive.open(entry) as opened:
                body = opened.read(remaining + 1)
            remaining -= len(body)
            if remaining < 0:
                raise Refused(f"{file.name} unpacks to more than {LARGEST:,} bytes.")
            yield name, body


def coco(file: Path) -> Iterator[Shape]:
    """Yields the shapes of a COCO file. Raises Refused if the file has another format."""
    body = json.loads(text_of(file.read_bytes()))
    if not isinstance(body, dict) or not all(isinstance(body.get(key), list) for key in ("images", "annotations")):
        raise Refused(f"{file.name} is not a COCO file: it has no lists of images and of annotations.")
    images: dict[str, list[dict]] = {}
    for image in body["images"]:
        images.setdefault(_id(image["id"]), []).append(image)
    kinds = body.get("categories") or ()
    labels = {_id(kind["id"]): str(kind["name"]) for kind in kinds}
    for annotation in body["annotations"]:
        of = images.get(_id(annotation.get("image_id")), []) if isinstance(annotation, dict) else []
        name = str(of[0].get("file_name", "")) if of else ""
        yield item(name, _coco_shape, annotation, of, labels)


def _id(value: Any) -> str:
    """Returns an identifier as text, because tools write the same identifier as 7, "7" or 7.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _coco_shape(annotation: dict, of: list[dict], labels: dict[str, str]) -> Shape:
    if not of:
        raise Refused("an annotation belongs to no image in the file")
    if len(of) > 1:
        raise Refused("the file lists several images with one id")
    image, segmentation, kind = of[0], annotation.get("segmentation"), annotation.get("category_id")
    label = labels.get(_id(kind), LESION if kind is None else f"class {_id(kind)}")
    shape = Shape(str(image["file_name"]), label[:60], size=_size(image.get("width"), image.get("height")))
    original = (image.get("extra") or {}).get("name")  # the original name, as Roboflow stores it
    shape.names = (str(original),) if original else ()
    if isinstance(segmentation, dict):
        counts, (h, w) = segmentation["counts"], segmentation["size"]
        shape.runs = _run_lengths(counts) if isinstance(counts, str) else [int(n) for n in counts]
        shape.size = int(number(w)), int(number(h))
    elif rings := [ring for ring in segmentation or () if ring]:
        shape.rings = [_ring(ring) for ring in rings]
    elif annotation.get("bbox"):
        shape.box = _box(*annotation["bbox"])
        shape.turn = number((annotation.get("attributes") or {}).get("rotation") or 0)  # as CVAT stores the rotation
    else:
        subject = "keypoints have" if "keypoints" in annotation else "an annotation has"
        raise Refused(f"{subject} no area")
    return shape


def _run_lengths(text: str) -> list[int]:
    """Decodes the compressed run lengths of COCO. Each letter has five bits of a value, lowest first, and a bit that
    says whether more letters follow. From the fourth run on, a value is the difference to the run two before."""
    runs: list[int] = []
    value = shift = 0
    for letter in text.encode("ascii", "replace"):
        code = letter - 48
        if not 0 <= code < 64 or shift > 40:
            raise Refused("run lengths have characters that COCO does not use")
        value |= (code & 31) << shift
        shift += 5
        if not code & 32:
            value -= (1 << shift) if code & 16 else 0
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value = shift = 0
    return runs


def cvat(file: Path) -> Iterator[Shape]:
    """Yields the shapes of a CVAT XML file or a zip with such files. Raises Refused if the file has another format."""
    if zipfile.is_zipfile(file):
        texts = [text_of(body) for name, body in unpacked(file) if name.lower().endswith(".xml")]
    else:
        texts = [text_of(file.read_bytes())]
    if any("<!DOCTYPE" in text or "<!ENTITY" in text for text in texts):  # entities could expand without limit
        raise Refused(f"{file.name} declares a document type or entities; CVAT's files have none.")
    tops = [top for top in map(ElementTree.fromstring, texts) if top.tag == "annotations"]
    if not tops:
        raise Refused(f"{file.name} is not a CVAT file: it has no <annotations>.")
    for top in tops:
        author, created = (
            next(filter(None, map(top.findtext, paths)), None)
            for paths in (
                (".//meta//assignee/username", ".//meta//owner/username"), (".//meta//updated", ".//meta/dumped"),
            )
        )  # fmt: skip
        for track in top.iter("track"):
            kinds = sorted({element.tag for element in track})
            yield Shape("", problem=f"a video track ({', '.join(kinds)[:60]}) is not read: export it as images")
        for image in top.iter("image"):
            name = image.get("name", "")
            if any((text or "").strip() for text in (image.text, *(element.tail for element in image))):
                yield Shape(name, problem="text between its shapes is not read")
            for element in image:
                yield item(name, _cvat_shape, element, image, author, created)


def _cvat_shape(element: ElementTree.Element, image: ElementTree.Element, author: Any, created: Any) -> Shape:
    attributes = element.attrib
    size = _size(image.get("width"), image.get("height"))
    shape = Shape(image.attrib["name"], attributes.get("label", LESION), author, created, size=size)
    if element.tag == "polygon":
        shape.rings = [_ring(v for pair in attributes["points"].split(";") for v in pair.split(","))]
    elif element.tag == "box":
        shape.box = tuple(number(attributes[k]) for k in ("xtl", "ytl", "xbr", "ybr"))
        shape.turn = number(attributes.get("rotation") or 0)
    elif element.tag == "ellipse":
        shape.ellipse = tuple(number(attributes[k]) for k in ("cx", "cy", "rx", "ry"))
        shape.turn = number(attributes.get("rotation") or 0)
    elif element.tag == "mask":
        shape.runs = [int(n) for n in attributes["rle"].split(",")]
        shape.window = tuple(int(number(attributes[k])) for k in ("left", "top", "width", "height"))
        shape.columns = False
    else:
        raise Refused(f"{_a(element.tag)} has no area")
    return shape


def _a(kind: str) -> str:
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind[:60]}"


def label_studio(file: Path) -> Iterator[Shape]:
    """Yields the shapes of a Label Studio JSON or JSON-MIN file. Raises Refused if the file has another format."""
    body = json.loads(text_of(file.read_bytes()))
    tasks = [body] if isinstance(body, dict) else body
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise Refused(f"{file.name} is not a Label Studio file: it has no list of tasks.")
    if not any("data" in task or "annotations" in task or _regions_of(task) for task in tasks):
        raise Refused(f"{file.name} is not a Label Studio file: no task in it has data or shapes.")
    for task in tasks:
        data = task.get("data") if isinstance(task.get("data"), dict) else task
        name, names = _address(task, data)
        if not {"data", "annotations"} & set(task):
            for region in _regions_of(task):
                yield item(name, _ls_shape, name, names, [region], task.get("annotator"), task)
            if any("data" in other for other in tasks):
                yield Shape(name, problem="a task has no data")
            continue
        versions = task.get("annotations")
        for version in versions if isinstance(versions, list) else [None]:
            if not isinstance(version, dict) or not isinstance(version.get("result"), list):
                yield Shape(name, names=names, problem="a task has no list of annotations, or one of them no result")
                continue
            if version.get("was_cancelled"):
                continue
            who = version.get("completed_by")
            who = who.get("email") or who.get("username") if isinstance(who, dict) else who
            grouped: dict[Any, list[dict]] = {}  # results by id, because a shape, its label and its comment share an id
            for index, result in enumerate(version["result"]):
                key = result.get("id") if isinstance(result, dict) else None
                grouped.setdefault(index if key is None else str(key), []).append(result)
            for results in grouped.values():
                yield item(name, _ls_shape, name, names, results, who, version)


def _regions_of(task: dict) -> list[dict]:
    """Returns the shapes of a task in JSON-MIN, which are lists under the names of the labelling tags."""
    lists = [value for value in task.values() if isinstance(value, list)]
    return [region for value in lists for region in value if isinstance(region, dict) and "original_width" in region]


def _address(task: dict, data: dict) -> tuple[str, tuple[str, ...]]:
    """Returns the name of a task's image, and variants of the name without a query and without percent-encoding."""
    texts = [value for value in data.values() if isinstance(value, str) and value]
    likely = (t for t in texts if PurePosixPath(t.split("?d=")[-1].split("?")[0]).suffix.lower() in IMAGES)
    raw = data.get("image") or next(likely, None) or task.get("file_upload") or next(iter(texts), "")
    plain = str(raw).split("?d=")[-1]
    plain = plain.split("?")[0] if "://" in plain or plain.startswith("/data/") else plain
    return str(raw), (plain, urllib.parse.unquote(plain))


WORDS = ("textarea", "choices", "taxonomy", "rating", "number", "datetime", "pairwise", "ranker", "relation")


def _ls_shape(name: str, names: tuple[str, ...], results: list[dict], who: Any, version: dict) -> Shape:
    """Reads one shape. results: Results with the shape's id, or in JSON-MIN the shape's value alone."""
    regions = [result for result in results if result.get("type") not in WORDS]
    kind = str((regions or results)[0].get("type") or "shape").removesuffix("labels")
    values = {key: value for result in regions for key, value in (result.get("value") or result).items()}
    source = next((result for result in regions if result.get("original_width")), {})
    label = next((v for k, v in values.items() if k.endswith("labels") and isinstance(v, list) and v), [LESION])[0]
    author = None if who is None else f"user {who}" if isinstance(who, int) else str(who)
    size = _size(source.get("original_width"), source.get("original_height"))
    shape = Shape(name, str(label), author, version.get("created_at"), names, size, shares=True)
    if source.get("image_rotation"):
        raise Refused("a shape was drawn on a picture that was turned in Label Studio")
    if {"x", "y", "width", "height"} <= set(values):
        shape.box, shape.corner = _box(values["x"], values["y"], values["width"], values["height"], share=100), True
    elif {"x", "y", "radiusX", "radiusY"} <= set(values):
        shape.ellipse = tuple(number(values[k]) / 100 for k in ("x", "y", "radiusX", "radiusY"))
    elif "points" in values and values.get("closed", True):
        shape.rings = [_ring(v for pair in values["points"] for v in pair) / 100]
    elif "rle" in values:
        shape.brush = [int(n) for n in values["rle"]]
    else:
        raise Refused(f"{_a(kind or 'label')} has no area")
    shape.turn = number(values.get("rotation") or 0)
    return shape


def brush_mask(codes: list[int], width: int, height: int) -> np.ndarray:
    """Decodes a brush mask of Label Studio to bool (H, W), True where the alpha channel is positive.

    codes: Bytes of a bit stream. The stream starts with the number of values (4 per pixel), the bit width of a value
        and four bit widths of run lengths. Each run that follows is one repeated value or a list of values.

    Raises Refused if the number of pixels is wrong or the stream is truncated.
    """
    if min(codes, default=0) < 0 or max(codes, default=0) > 255:
        raise Refused("a brush mark is not written as Label Studio writes it")
    bits, at = np.unpackbits(np.array(codes, np.uint8)), 0

    def take(count: int) -> int:
        nonlocal at
        if at + count > len(bits):
            raise Refused("a brush mark is cut off")
        value = int("".join(map(str, bits[at : at + count])), 2)
        at += count
        return value

    count = take(32)
    if count != 4 * width * height:
        raise Refused(f"a brush mark has {count // 4:,} pixels, but its image has {width * height:,}")
    deep = take(5) + 1
    lengths = [take(4) + 1 for _ in range(4)]
    out, done = np.zeros(count, bool), 0
    while done < count:
        same = take(1)
        end = done + 1 + take(lengths[take(2)])
        words = deep * (1 if same else end - done)
        if end > count or at + words > len(bits):
            raise Refused("a brush mark is cut off")
        out[done:end] = bits[at : at + words].reshape(-1, deep).any(1)
        done, at = end, at + words
    return out.reshape(height, width, 4)[..., 3]


_NO_LABELS = re.compile(r"(readme.*|train|val|valid|test|classes|labels|predefined_classes)\.txt$", re.I)
_CLASSES = re.compile(r"(classes|labels|predefined_classes)\.txt$|.*\.names$", re.I)


def yolo(file: Path) -> Iterator[Shape]:
    """Yields the shapes of a zip with YOLO labels, which has one text file per image and the names of the classes."""
    suffixes = (".txt", ".yaml", ".yml", ".names", ".json")
    texts = {name: text_of(body) for name, body in unpacked(file) if name.lower().endswith(suffixes)}
    labels, points = _yolo_names(file, texts)
    rows = [
        (name.rsplit(".", 1)[0], line.split())
        for name, text in texts.items()
        if name.lower().endswith(".txt") and not _NO_LABELS.match(PurePosixPath(name).name)
        for line in text.splitlines()
        if line.strip()
    ]
    single = not labels and len({row[0] for _, row in rows}) == 1
    for name, row in rows:
        yield item(name, _yolo_shape, name, row, labels, single, points)


def _yolo_names(file: Path, texts: dict[str, str]) -> tuple[dict[int, str], bool]:
    """Returns the names of the classes by number, and whether boxes are followed by key points."""
    lists: list[dict[int, str]] = []
    points = False
    for name, text in texts.items():
        if _CLASSES.match(PurePosixPath(name).name):
            lines = enumerate(line.strip() for line in text.splitlines())
            lists.append({index: label for index, label in lines if label})
        elif name.lower().endswith((".yaml", ".yml")):
            try:
                config = yaml.safe_load(text)
            except (yaml.YAMLError, RecursionError):
                raise Refused(f"{PurePosixPath(name).name} in {file.name} is not readable YAML.") from None
            config = config if isinstance(config, dict) else {}
            points = points or "kpt_shape" in config
            named = config.get("names")
            pairs = enumerate(named) if isinstance(named, list) else named.items() if isinstance(named, dict) else ()
            lists.append({int(number(index)): str(label) for index, label in pairs})
    lists = [named for named in lists if named]
    if any(named != lists[0] for named in lists):
        raise Refused(f"{file.name} names its classes twice, each time differently.")
    return (lists[0] if lists else {}), points


def _yolo_shape(name: str, row: list[str], labels: dict[int, str], single: bool, points: bool) -> Shape:
    kind, values = number(row[0]), [number(value) for value in row[1:]]
    if kind != int(kind) or kind < 0:
        raise Refused("a line does not begin with a class number")
    shape = Shape(name, labels.get(int(kind), LESION if single else f"class {int(kind)}"), shares=True)
    scored = len(values) == 5 and 0 <= values[4] <= 1  # a box and the confidence of a detector
    tracked = len(values) == 6 and values[5] > 1  # a box, a confidence and the number of a track
    if points or len(values) == 4 or scored or tracked:
        x, y, w, h = values[:4]
        shape.box = _box(x - w / 2, y - h / 2, w, h)
    else:
        shape.rings = [_ring(values[:-1] if len(values) % 2 and len(values) > 6 else values)]
    return shape


def png(file: Path) -> Iterator[Shape]:
    """Yields a shape for each PNG mask in a zip. Masks in other image formats become shapes with a `problem`."""
    for name, body in unpacked(file):
        suffix = PurePosixPath(name).suffix.lower()
        if suffix == ".png":
            yield Shape(name, image=body)
        elif suffix in IMAGES:
            yield Shape(name, problem=f"a mask is a {suffix[1:].upper()} file, but masks are imported only as PNG")
