"""Cases added to a study are prepared by themselves: what was there is neither decoded nor written again."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from core.engine import files as whole
from core.engine import rows
from core.engine.rows import Some
from core.studio.ingest import cache
from core.studio.ingest.masks import add_mask
from core.studio.ingest.studies import add_cases, load_arrays
from core.studio.runs import pipeline
from tests.conftest import ARCH, picture, write

pytestmark = pytest.mark.slow

SIZE = 32
ROW = SIZE * SIZE * 5  # bytes of an image, a region and a mask
BESIDE = 4096  # bytes of headers, hashes and descriptions of a part


@pytest.fixture
def decoded(monkeypatch) -> list[str]:
    """The files that are decoded from here on."""
    seen: list[str] = []
    real = cache.image_of

    def image_of(case):
        seen.append(Path(case["path"]).name)
        return real(case)

    monkeypatch.setattr(cache, "image_of", image_of)
    return seen


@pytest.fixture
def add(store, tiny_study, tmp_path):
    """add(n) -> the names of n files that are in the study now, the last of them as training images if so asked."""
    made: list[str] = []

    def more(count: int, train: int = 0) -> list[str]:
        files = []
        for number in range(len(made), len(made) + count):
            files.append(write(tmp_path / "more" / f"m{number}.png", picture(700 + number)[0]))
        made.extend(f.name for f in files)
        add_cases(store, tiny_study, files[: count - train])
        if train:
            add_cases(store, tiny_study, files[count - train :], "train", "normal")
        return [f.name for f in files]

    return more


def content(store) -> list[bytes]:
    arrays = load_arrays(store, "tiny", SIZE)
    return [np.asarray(values).tobytes() for values in (arrays.images, arrays.roi, arrays.masks)]


def files(store) -> dict[int, int]:
    """Bytes of each file of the cache, by its number on the disk: a second name is not a second file."""
    found = [path.stat() for path in store.home.cache.rglob("*") if path.is_file()]
    return {f.st_ino: f.st_size for f in found}


def written(store, before: dict[int, int]) -> int:
    return sum(size for number, size in files(store).items() if number not in before)


def anew(store) -> list[bytes]:
    """What is prepared where nothing was there before."""
    shutil.rmtree(store.home.cache / "tiny")
    return content(store)


def the_set(store) -> Path:
    return next(store.home.cache.glob(f"tiny/{SIZE}-*"))


def test_added_cases_cost_as_much_as_they_are(store, tiny_study, add, decoded):
    before, there = load_arrays(store, tiny_study, SIZE), files(store)
    old = np.array(before.images)
    decoded.clear()
    new = add(5, train=2)
    progress: list[tuple[int, int]] = []
    grown = load_arrays(store, tiny_study, SIZE, lambda *done: progress.append(done))
    assert progress == [(number, 5) for number in range(1, 6)]
    assert sorted(decoded) == sorted(new) and len(grown) == 41
    assert 5 * ROW <= written(store, there) <= 5 * ROW + BESIDE
    assert np.array_equal(before.images, old), "who holds the arrays from before goes on reading them"
    assert grown.images.shape == (41, SIZE, SIZE, 3) and grown.masks.shape == grown.roi.shape == (41, SIZE, SIZE)
    several = content(store)
    assert len(decoded) == 5 and len(list(store.home.cache.glob(f"tiny/{SIZE}-*"))) == 1
    assert several == anew(store)


def test_one_after_another_makes_few_parts(store, tiny_study, add, decoded):
    load_arrays(store, tiny_study, SIZE)
    decoded.clear()
    total = 0
    for _ in range(8):
        before = files(store)
        name = add(1)
        load_arrays(store, tiny_study, SIZE)
        assert decoded == name
        decoded.clear()
        total += written(store, before)
        assert len(cache.parts_of(the_set(store))) <= 4
    assert total <= 20 * ROW + 8 * BESIDE, "each is written again as often as the parts before it double"
    assert content(store) == anew(store)


def test_as_many_as_there_were_lie_in_one_file_again(store, tiny_study, add):
    load_arrays(store, tiny_study, SIZE)
    add(36)
    arrays = load_arrays(store, tiny_study, SIZE)
    assert isinstance(arrays.images, np.memmap) and len(arrays) == 72
    assert content(store) == anew(store)


def test_killed_in_the_middle_the_set_from_before_is_whole(store, tiny_study, add, decoded, monkeypatch):
    load_arrays(store, tiny_study, SIZE)
    first, there = the_set(store), files(store)
    new = add(4)
    with monkeypatch.context() as killed:
        killed.setattr(whole.shutil, "rmtree", lambda *args, **options: None)  # a killed process clears nothing away
        killed.setattr(cache.seals, "seal", lambda file: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            load_arrays(store, tiny_study, SIZE)
    assert list(store.home.cache.glob(f"tiny/{whole.MAKING}*")) and cache.is_sound(first, full=True)
    assert there.items() <= files(store).items()
    decoded.clear()
    grown = content(store)
    assert sorted(decoded) == sorted(new) and not first.exists()
    assert not list(store.home.cache.glob(f"tiny/{whole.MAKING}*")) and grown == anew(store)


@pytest.mark.parametrize("damage", ["changed", "gone", "undescribed"])
def test_a_damaged_part_is_made_again(store, tiny_study, add, damage):
    load_arrays(store, tiny_study, SIZE)
    add(3)
    whole = content(store)
    last = cache.parts_of(the_set(store))[-1]
    if damage == "changed":
        data = bytearray((last / "images.npy").read_bytes())
        data[-1] ^= 255
        (last / "images.npy").write_bytes(data)
    elif damage == "gone":
        shutil.rmtree(last)
    else:
        (last / "meta.json").write_text("{")
    assert not cache.is_sound(the_set(store)) and cache.folders(store.home) == [the_set(store)]
    assert content(store) == whole and cache.is_sound(the_set(store), full=True)


def test_damage_before_is_not_taken_over(store, tiny_study, add):
    load_arrays(store, tiny_study, SIZE)
    file = the_set(store) / "roi.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"\7")
    add(1)
    assert content(store) == anew(store)


def test_a_new_lesion_mask_is_written_into_its_part_alone(store, tiny_study, add):
    load_arrays(store, tiny_study, SIZE)
    add(3)
    arrays, there = load_arrays(store, tiny_study, SIZE), files(store)
    add_mask(store, int(arrays.case_ids[-1]), np.ones((48, 64), np.uint8), "import")
    changed = load_arrays(store, tiny_study, SIZE)
    assert changed.masks[-1].all() and changed.has_mask[-1] and written(store, there) <= 3 * SIZE * SIZE + BESIDE
    assert np.array_equal(np.asarray(changed.masks)[:-1], np.asarray(arrays.masks)[:-1])


def test_training_images_that_lie_apart_need_not_be_copied(store, tiny_study, add, monkeypatch):
    """A fit on rows that are read when asked for gives the detector that a fit on a copy gives."""
    add(4, train=3)
    arrays = load_arrays(store, tiny_study, SIZE)
    train = arrays.index("train")
    assert (np.diff(train) > 1).any() and isinstance(rows.rows_of(arrays.images, train), np.ndarray)
    encoder = pipeline.create_untrained(store, tiny_study, SIZE, arch=ARCH)
    pipeline.pretrain_run(store, encoder)
    weights = []
    for most in (rows.AT_ONCE, 0):
        monkeypatch.setattr(rows, "AT_ONCE", most)
        fit = pipeline.create_fit(store, encoder, "padim", {"channels": 8})
        pipeline.fit_run(store, fit, "cpu")
        weights.append((store.home.runs / fit / "padim.safetensors").read_bytes())
    apart = rows.rows_of(arrays.images, train)
    assert isinstance(apart, Some) and np.array_equal(apart, arrays.images[train])
    assert weights[0] == weights[1]
    assert isinstance(rows.rows_of(arrays.images, arrays.index("holdout")), np.ndarray), "side by side: a view"
