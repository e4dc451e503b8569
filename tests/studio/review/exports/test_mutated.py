"""Other tools' files with one item of several damaged: the others come in as ever, the odd one is taken or named.

Whatever is refused is refused in a sentence of the studio's own, and leaves nothing behind.
"""

import copy
import json
import random
import re
import time
import zipfile

import pytest

from core.studio.db.foreign import Refused
from core.studio.review.exports.annotations import import_annotations
from tests.studio.review.exports.test_foreign import taken

SECONDS = 120  # of each format
ODD = [None, True, False, -1, 0, 1.5, 10**9, -(10**30), 1e300, float("nan"), float("inf"), "", "7", "x", "../x", "\0",
       "\ud800", "1e3", "²", [], [1], [[]], {}, {"a": 1}]  # fmt: skip
LIBRARY = re.compile(
    r"Traceback|Error\b|Exception|NoneType|object has no|not subscriptable|invalid literal|could not convert|"
    r"list index|unexpected|positional|expecting value|codec|line \d+,? column|unhashable|\bint\(|\bstr\b|\bdict\b",
    re.I,
)


def box(i: int) -> tuple[int, int, int, int]:
    return 10 + i, 12 + i, 20 + i, 16 + i


def coco(name: str, i: int) -> dict:
    x, y, w, h = box(i)
    corners = [x, y, x + w, y, x + w, y + h, x, y + h]
    return [
        {"id": i, "image_id": i, "category_id": 1, "bbox": [x, y, w, h], "segmentation": [corners], "iscrowd": 0},
        {"id": i, "image_id": i, "category_id": 1, "bbox": [x, y, w, h], "attributes": {"rotation": 0}},
        {"id": i, "image_id": i, "segmentation": {"counts": [72 * i + 9, 30, 4320 - 72 * i - 39], "size": [60, 72]}},
    ][i % 3]


def label_studio(name: str, i: int) -> dict:
    x, y, w, h = box(i)
    value = {"x": x, "y": y, "width": w, "height": h, "rotation": 0, "rectanglelabels": ["polyp"]}
    if i % 2:
        value = {"points": [[x, y], [x + w, y], [x + w, y + h]], "closed": True, "polygonlabels": ["polyp"]}
    kind = "polygonlabels" if i % 2 else "rectanglelabels"
    drawn = {"id": str(i), "type": kind, "original_width": 72, "original_height": 60, "value": value}
    return {"data": {"image": name}, "annotations": [{"completed_by": {"email": "ada"}, "result": [drawn]}]}


def cvat(name: str, i: int) -> str:
    x, y, w, h = box(i)
    shape = [
        f'<box label="polyp" xtl="{x}" ytl="{y}" xbr="{x + w}" ybr="{y + h}" rotation="0.0"></box>',
        f'<polygon label="polyp" points="{x},{y};{x + w},{y};{x + w},{y + h}"></polygon>',
        f'<mask label="polyp" rle="0, {w * h}" left="{x}" top="{y}" width="{w}" height="{h}"></mask>',
        f'<ellipse label="polyp" cx="{x + 5}" cy="{y + 5}" rx="4" ry="3" rotation="10"></ellipse>',
    ][i % 4]
    return f'<image id="{i}" name="{name}" width="72" height="60">{shape}</image>'


def yolo(name: str, i: int) -> str:
    x, y, w, h = (v / s for v, s in zip(box(i), (72, 60, 72, 60), strict=True))
    return f"0 {x} {y} {x + w} {y} {x + w} {y + h}" if i % 2 else f"0 {x + w / 2} {y + h / 2} {w} {h}"


ITEM = {"coco": coco, "label-studio": label_studio, "cvat": cvat, "yolo": yolo}


def write(file, form: str, names: list[str], items: list) -> None:
    if form == "coco":
        images = [{"id": i, "file_name": name, "width": 72, "height": 60} for i, name in enumerate(names)]
        body = {"images": images, "categories": [{"id": 1, "name": "polyp"}], "annotations": items}
        file.write_text(json.dumps(body))
    elif form == "label-studio":
        file.write_text(json.dumps(items))
    elif form == "cvat":
        file.write_bytes(f"<annotations>{''.join(items)}</annotations>".encode("utf-8", "surrogatepass"))
    else:
        with zipfile.ZipFile(file, "w") as out:
            out.writestr("classes.txt", "polyp")
            for name, text in zip(names, items, strict=True):
                out.writestr(f"labels/{name.rsplit('.', 1)[0]}.txt", text.encode("utf-8", "surrogatepass"))


def mutated(item, draw: random.Random):
    """The item with one to three of its values, keys or letters changed."""
    if isinstance(item, str):
        letters = list(item)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(letters))
            letters[at] = draw.choice(
                ["", "9", "-", ".", "e", "x", ";", ",", " ", "\n", "\t", "é", "0.5", "1e9", "nan", letters[at] * 2]
            )
        return "".join(letters)
    other = json.loads(json.dumps(item))
    for _ in range(draw.randint(1, 3)):
        places = [(other, key) for key in other]
        waiting = list(other.values())
        while waiting:
            value = waiting.pop()
            keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
            places += [(value, key) for key in keys]
            waiting += [value[key] for key in keys]
        if not places:
            break
        where, key = draw.choice(places)
        if draw.random() < 0.2 and isinstance(where, dict):
            del where[key]
        elif draw.random() < 0.2 and isinstance(where, dict):
            where[draw.choice(["x", "rle", "points", "keypoints", "counts"])] = where.pop(key)
        else:
            where[key] = copy.deepcopy(draw.choice([*ODD, -5.25, 40, 71.5, 300]))  # it may be changed next
    return other


@pytest.mark.longest
@pytest.mark.timeout(600)
@pytest.mark.parametrize("form", ITEM)
def test_one_damaged_item_changes_no_other(room, tmp_path, form):
    store, _ = room
    rows = store.query("SELECT * FROM cases WHERE split = 'test' ORDER BY id LIMIT 6")
    names = [row["name"] for row in rows]
    items = [ITEM[form](name, i) for i, name in enumerate(names)]
    file = tmp_path / "in"

    def came() -> dict[str, list]:
        found: dict[str, list] = {}
        for image, label, place, mask in taken(store, "room"):
            assert 0 <= place[0] < place[2] <= 72 and 0 <= place[1] < place[3] <= 60
            assert label.strip() and "\0" not in label
            found.setdefault(image, []).append((label, place, None if mask is None else mask.tobytes()))
        store.execute("DELETE FROM findings")
        store.execute("DELETE FROM lesion_masks WHERE source != 'import'")
        return found

    write(file, form, names, items)
    import_annotations(store, "room", file, form, "ann")
    base = came()
    assert set(base) == set(names) and len({str(value) for value in base.values()}) == 6
    counts = {"taken": 0, "named": 0, "refused": 0}
    seed, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end or seed < 200:
        draw = random.Random(f"{form} {seed}")
        seed += 1
        odd = draw.randrange(6)
        changed = mutated(items[odd], draw)
        write(file, form, names, [changed if i == odd else item for i, item in enumerate(items)])
        try:
            done = import_annotations(store, "room", file, form, "ann")
        except Refused as error:  # as a whole: what is no JSON or XML, and names of classes that differ
            assert "\n" not in str(error).strip() and not LIBRARY.search(str(error)), (seed, error)
            assert came() == {} and form in ("cvat", "label-studio"), (seed, changed, error)
            counts["refused"] += 1
            continue
        assert not any(LIBRARY.search(why) for why in done["passed_over"]), (seed, done)
        found = came()
        moved = [name for i, name in enumerate(names) if i != odd and found.get(name) != base[name]]
        image = {names[odd]} if moved else set()  # a changed name may be another image's
        assert len(moved) <= 1 and (not moved or len(found.get(moved[0], [])) > 1 or image), (seed, changed, moved)
        if found.get(names[odd]):
            counts["taken"] += 1
        elif form != "yolo" or str(changed).strip():
            said = done["passed_over"] or done["unknown"] or moved
            assert said or not _drawn(changed), (seed, changed, done)
            counts["named"] += 1
    assert counts["taken"] > 10 and counts["named"] > 10, counts


def _drawn(item) -> bool:
    """Whether what was changed still holds a shape: an empty list, and an annotation that was cancelled, do not."""
    kept = item.get("annotations", [item]) if isinstance(item, dict) else [item]
    kept = kept if isinstance(kept, list) else []
    return any(one.get("result", [1]) and not one.get("was_cancelled") for one in kept if isinstance(one, dict)) or (
        isinstance(item, str) and bool(item.strip())
    )
