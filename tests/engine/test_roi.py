"""The region of interest, on drawn images whose field of view is known, and on real ones where they are at hand."""

import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from core.engine import roi
from core.engine.phantom.frame import draw_case
from core.engine.roi import find_roi


def tissue(height=200, width=240, seed=0):
    rng = np.random.default_rng(seed)
    coarse = rng.integers(90, 200, (8, 10, 3)).astype(np.uint8)
    return cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)


def overlap(found, truth):
    return (found & truth).sum() / (found | truth).sum()


def octagon(height, width, cut=50):
    y, x = np.mgrid[0:height, 0:width]
    u, v = np.minimum(x, width - 1 - x), np.minimum(y, height - 1 - y)
    return (u + v >= cut).astype(np.uint8)


@pytest.mark.parametrize("scale", [0.5, 1, 3])
def test_an_octagon_is_found_at_any_size(scale):
    h, w = round(200 * scale), round(240 * scale)
    truth = octagon(h, w, round(50 * scale))
    found = find_roi(tissue(h, w) * truth[..., None])
    assert found.dtype == np.uint8 and found.shape == (h, w)
    assert overlap(found, truth) > 0.97


def test_a_round_view_is_found():
    y, x = np.mgrid[0:200, 0:300]
    truth = (np.hypot(y - 100, x - 150) < 90).astype(np.uint8)
    assert overlap(find_roi(tissue(200, 300) * truth[..., None]), truth) > 0.97


@pytest.mark.parametrize("frame", [0, 30])
@pytest.mark.parametrize("corner", [(slice(135, None), slice(None, 75)), (slice(None, 60), slice(160, None))])
def test_an_inset_is_cut_out(corner, frame):
    truth = octagon(200, 240, 30)
    image = tissue() * truth[..., None]
    image[corner] = frame
    rows, columns = (range(*s.indices(n)) for s, n in zip(corner, image.shape[:2], strict=True))
    image[rows[4] : rows[-4], columns[4] : columns[-4]] = 0
    truth[corner] = 0
    assert overlap(find_roi(image), truth) > 0.96


def test_a_dark_lumen_stays_inside_even_at_the_edge():
    image = tissue()
    cv2.circle(image, (230, 110), 45, (3, 2, 2), -1)
    assert find_roi(image)[70:150, 190:].mean() > 0.95


def test_burned_in_text_is_left_out_and_highlights_are_not():
    image = tissue(288, 340) // 2 + 40
    image = cv2.GaussianBlur(image, (0, 0), 3)
    plain = find_roi(image)
    assert plain.all()
    cv2.putText(image, "12/03/2014 09:41", (20, 60), cv2.FONT_HERSHEY_PLAIN, 0.8, (255, 255, 255), 1)
    cv2.circle(image, (200, 150), 4, (255, 255, 255), -1)
    cv2.circle(image, (240, 171), 6, (255, 255, 255), -1)
    found = find_roi(image)
    assert found[52:60, 25:130].mean() < 0.2
    assert found[100:].all()
    assert found.mean() > 0.97


def speckle(seed: int) -> np.ndarray:
    """Draws ultrasound's grain: the envelope of noise with the grain of a scanner, logarithmic, in strong contrast."""
    draw = np.random.default_rng(seed)
    grain = draw.uniform(0.8, 2.2)
    parts = [cv2.GaussianBlur(draw.normal(size=(288, 384)).astype(np.float32), (0, 0), grain) for _ in range(2)]
    envelope = np.hypot(*parts)
    level = cv2.resize(draw.uniform(0.1, 1, (6, 7)).astype(np.float32), (384, 288), interpolation=cv2.INTER_CUBIC)
    decibels = 20 * np.log10(envelope / envelope.mean() * np.clip(level, 0.02, 1) + 1e-3)
    grey = np.clip((decibels + 32) / draw.uniform(18, 30) * 255, 0, 255)
    return np.repeat(cv2.GaussianBlur(grey.astype(np.float32), (0, 0), 0.6).astype(np.uint8)[..., None], 3, 2)


def test_speckle_highlights_and_rims_are_no_text():
    found = [roi.find_text(speckle(seed)).mean() for seed in range(20)]
    assert np.mean(found) < 0.001 and max(found) < 0.01
    for seed in range(20):
        draw = np.random.default_rng(seed)
        image = tissue(288, 340, seed) // 2
        for _ in range(30):  # of moist tissue
            place = (int(draw.integers(340)), int(draw.integers(288)))
            cv2.ellipse(image, place, (int(draw.integers(2, 7)), 2), draw.uniform(0, 180), 0, 360, (255,) * 3, -1)
        assert roi.find_text(image).mean() < 0.005
        rim = np.zeros((288, 340, 3), np.uint8)
        axes = (int(draw.integers(60, 120)), int(draw.integers(80, 130)))
        cv2.ellipse(rim, (170, 144), axes, 0, 0, 360, (190,) * 3, int(draw.integers(3, 7)), cv2.LINE_AA)
        assert not roi.find_text(rim).any()


@pytest.mark.parametrize("word", ["RT2", "AP", "SUPINE", "LT KIDNEY", "12:45:07", "2019/03/11", "Name 0042", "MI 0.9"])
def test_words_on_something_smooth_are_found_whatever_their_length(word):
    kept = []
    for seed in range(12):
        draw = np.random.default_rng(seed)
        image = cv2.GaussianBlur(tissue(288, 340, seed) // 2, (0, 0), 4)
        size, letters = draw.uniform(0.32, 0.45), np.zeros_like(image)
        (width, height), _ = cv2.getTextSize(word, cv2.FONT_HERSHEY_SIMPLEX, size, 1)
        x, y = int(draw.integers(5, 335 - width)), int(draw.integers(height + 5, 280))
        cv2.putText(letters, word, (x, y), cv2.FONT_HERSHEY_SIMPLEX, size, (255, 255, 255), 1, cv2.LINE_AA)
        kept.append(roi.find_text(np.maximum(image, letters))[y - height : y, x : x + width].mean())
    assert np.mean([share > 0.7 for share in kept]) >= 0.75, kept


def test_grey_and_empty_images():
    assert find_roi(tissue()[..., 0]).all()
    assert find_roi(np.zeros((40, 50, 3), np.uint8)).all()
    for shape in ((40, 50, 3, 1), (40, 50, 1), (40, 50, 4), (40,), (0, 50, 3), (40, 0)):
        with pytest.raises(ValueError, match="uint8"):
            find_roi(np.zeros(shape, np.uint8))
    with pytest.raises(ValueError, match="uint8"):
        find_roi(np.zeros((40, 50, 3), np.float32))


@pytest.mark.slow
def test_glints_of_drawn_frames_are_no_text():
    """They stand in rows of two and three and are as bright as letters: in 7 of 100 frames they were taken for text."""
    assert sum(roi.find_text(draw_case((11, i), 224, i % 3).image).any() for i in range(60)) <= 1


@pytest.mark.slow
def test_it_finds_the_drawn_frames_octagon_and_keeps_their_lesions():
    kept = []
    for i in range(6):
        case = draw_case((5, 2, i), 128, lesions=1)
        roi = find_roi(case.image)
        assert 0.70 < roi.mean() < 0.97
        assert not roi[:6, :6].any() and not roi[-6:, -6:].any()
        kept.append(roi[case.mask > 0].mean())
    assert np.mean(kept) > 0.99


@pytest.mark.parametrize("name", ["brain", "idrid"])
def test_real_images_without_text_have_none(real, name):
    """A skull's rim is as white, thin and long as a line of text: before letters were counted, 20 of 89 had some."""
    files = sorted((Path(real(name)) / "train/normal").iterdir())[::4]
    found = [roi.find_text(cv2.resize(cv2.imread(str(file)), (288, 288))).any() for file in files]
    assert np.mean(found) <= 0.03


@pytest.mark.parametrize("name", ["hyperkvasir", "idrid"])
def test_real_lesions_stay_inside(real, name):
    folder = Path(real(name)) / "test"
    kept, areas, start = [], [], time.process_time()
    for path in sorted((folder / "abnormal").iterdir())[:40]:
        image = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
        roi = find_roi(image)
        areas.append(roi.mean())
        mask = cv2.imread(str(folder / "mask" / f"{path.stem}.png"), cv2.IMREAD_GRAYSCALE) > 0
        kept.append(roi[mask].mean())
    assert np.mean(kept) > 0.98 and np.min(kept) > 0.8
    assert 0.6 < np.mean(areas) < 0.95
    assert (time.process_time() - start) / len(areas) < 0.1


def test_real_insets_are_cut_out(real):
    """98 % of hyperkvasir's normals have a black inset in the lower left corner."""
    lit = []
    for path in sorted((Path(real("hyperkvasir")) / "test" / "normal").iterdir())[:40]:
        image = cv2.imread(str(path))
        h, w = image.shape[:2]
        corner = (slice(int(0.75 * h), h), slice(0, int(0.25 * w)))
        lit.append((find_roi(image)[corner] * (image[corner].max(2) < 10)).mean())
    assert np.mean(lit) < 0.05


def plain_inset(black, view):
    """The rule of an inset in the upper left corner, written as it is said; black: what is dark, the rim included."""
    height, width = black.shape
    best = (0, 0)
    reach = width
    for y in range(height):
        lit = np.flatnonzero(~black[y])
        reach = min(reach, lit[0] if len(lit) else width)
        narrower = y + 1 == height or min(reach, *np.flatnonzero(~black[y + 1]), width) < reach
        h, w = y + 1, int(reach)
        if not narrower or h < 0.1 * height or w < 0.1 * width or h * w > 0.35 * height * width:
            continue
        right = ~black[:h, w + 2 : w + 5][view[:h, w + 2 : w + 5]]
        below = ~black[h + 2 : h + 5, :w][view[h + 2 : h + 5, :w]]
        sides = [s.mean() for s in (right, below) if s.size]
        straight = len(sides) == 2 and min(sides) > 0.4 and np.mean(sides) > 0.6
        if straight and view[:h, :w].mean() >= 0.1 and h * w > best[0] * best[1]:
            best = h, w
    return best


def test_the_inset_is_that_of_the_rule_written_plainly():
    draw = np.random.default_rng(0)
    found = []
    for _ in range(60):
        height, width = draw.integers(60, 90, 2)
        view = octagon(height, width, int(draw.integers(1, 40))) > 0
        lit = (draw.random((height, width)) < draw.choice([0.9, 0.97, 1.0])) & view
        h, w = draw.integers(5, 45, 2)
        lit[:h, :w] &= draw.random((h, w)) < draw.choice([0.0, 0.0, 0.001])
        black = ~lit
        black[: roi.RIM], black[:, : roi.RIM] = True, True
        found.append(roi._inset_at_origin(lit, view))
        assert found[-1] == plain_inset(black, view)
    assert 15 < sum(h > 0 for h, _ in found) < 60, "some have an inset and some have none"
