"""The whole way of a reader who teaches: 300 real frames, ten lesions marked by snap or box, learnt, compared, adopted.

The reader knows where the polyps are (the masks that came with the images) and marks them with the page's own tools:
snap where the heat map shows a part of the lesion, else a box round it, 10 % too loose. Seconds and acts (keys, clicks,
drags) of each stage are printed; with PMSACL_SHOTS, a picture of each is left in that folder.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
from playwright.sync_api import Error

from core.engine.segment import lite_medsam
from tests.app.conftest import frames
from tests.app.review.conftest import REACHED, WIDGET, rows, settle

# Without the masks: the reader draws them.
COUNTS = {"train/normal": 140, "test/normal": 60, "test/abnormal": 100}
MARKS = 10
LOOSE = 0.1  # of the box's side
SHOTS = os.environ.get("PMSACL_SHOTS")
HOUR = 3_600_000  # ms
# Where pixels (x, y) of the image lie on the page.
PLACES = f"""(points) => {{
  const {{ view, panes }} = {WIDGET}.review;
  const box = panes[0].canvas.getBoundingClientRect();
  return points.map(([x, y]) => [box.x + x * view.scale + view.dx, box.y + y * view.scale + view.dy]); }}"""
DRAWN = f"(() => {{ const {{ w, h, mask }} = {WIDGET}.review.editor; return [w, h, [...mask].join('')]; }})()"
CLOSE = 0.7  # Dice with the lesion at which a reader takes what snap has found


class Reader:
    """Somebody at the page, who knows the lesions. acts: keys, clicks and drags so far."""

    def __init__(self, page, truth: Path, home: Path) -> None:
        self.page, self.truth, self.home, self.acts, self.snapped = page, truth, home, 0, 0

    def case(self) -> tuple[str, str]:
        """File and label of the case on screen."""
        case = self.page.evaluate(f"{WIDGET}.review.detail.id")
        return rows(self.home, "SELECT path, label FROM cases WHERE id = ?", case)[0]

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.acts += 1

    def click(self, name: str, where=None) -> None:
        (where or self.page).get_by_role("button", name=name, exact=True).click()
        self.acts += 1

    def lesion(self) -> np.ndarray:
        """bool (H, W) of the case on screen."""
        return cv2.imread(str(self.truth / f"{Path(self.case()[0]).stem}.png"), cv2.IMREAD_GRAYSCALE) > 127

    def places(self, *points: tuple[float, float]) -> list[list[float]]:
        return self.page.evaluate(PLACES, [list(map(float, point)) for point in points])

    def dice(self, lesion: np.ndarray) -> float:
        width, height, text = self.page.evaluate(DRAWN)
        drawn = np.frombuffer(text.encode(), np.uint8).reshape(height, width) == ord("1")
        return float(2 * (drawn & lesion).sum() / max(drawn.sum() + lesion.sum(), 1))

    def mark(self) -> float:
        """Snap where the lesion is; where that is not close, a box round it. Dice of what is saved."""
        lesion = self.lesion()
        ys, xs = np.nonzero(lesion)
        self.page.mouse.move(*self.places((xs.mean(), ys.mean()))[0])
        before = self.page.evaluate(f"{WIDGET}.review.editor.history.length")
        self.press(";")
        close = self.dice(lesion) if self.drawn(before + 1) else 0.0
        self.snapped += close >= CLOSE
        if close < CLOSE:
            x0, x1, y0, y1 = xs.min(), xs.max(), ys.min(), ys.max()
            dx, dy = LOOSE * (x1 - x0), LOOSE * (y1 - y0)
            height, width = lesion.shape
            corners = (max(x0 - dx, 0), max(y0 - dy, 0)), (min(x1 + dx, width - 1), min(y1 + dy, height - 1))
            (ax, ay), (bx, by) = self.places(*corners)
            if before != (now := self.page.evaluate(f"{WIDGET}.review.editor.history.length")):
                self.press("z")
                self.page.wait_for_function(f"{WIDGET}.review.editor.history.length === {now - 1}")
            self.press("/")
            self.page.mouse.move(ax, ay)
            self.page.mouse.down()
            self.page.mouse.move(bx, by, steps=4)
            self.page.mouse.up()
            self.acts += 1
            assert self.drawn(before + 1), "a box gives a mask"
            close = self.dice(lesion)
        self.press("s")
        self.page.wait_for_function(f"{WIDGET}.review.detail.masks.some((m) => m.source !== 'import')")
        self.press("=")
        self.page.wait_for_function(f"{WIDGET}.review.detail.marks.finished")
        return close

    def drawn(self, steps: int) -> bool:
        """Whether the drawing comes to `steps` steps."""
        try:
            self.page.wait_for_function(f"{WIDGET}.review.editor.history.length === {steps}", timeout=20_000)
        except Error:
            return False
        return True

    def decide(self, key: str) -> None:
        case = self.page.evaluate(f"{WIDGET}.review.detail.id")
        self.press(key)
        self.page.wait_for_function(f"{WIDGET}.review.detail.id !== {case} && {WIDGET}.review.heat")
        settle(self.page)


@pytest.fixture
def page_url(unused) -> str:
    return unused.url


@pytest.mark.longest
@pytest.mark.timeout(3600)  # ten minutes on two quiet cores, most of it learning
@pytest.mark.skipif(lite_medsam.file() is None, reason=f"{lite_medsam.PACKAGE} is not installed")
def test_ten_marks_are_learnt_compared_and_read_on_with(page, page_url, real, unused, tmp_path):
    truth, folder = real("hyperkvasir") / "test/mask", frames(real("hyperkvasir"), tmp_path / "colon", COUNTS)
    reader, stages = Reader(page, truth, unused.home), []
    began = time.monotonic()

    def stage(name: str) -> None:
        nonlocal began
        stages.append({"stage": name, "seconds": round(time.monotonic() - began, 1), "acts": reader.acts})
        print(json.dumps(stages[-1]))
        if SHOTS:
            page.screenshot(path=f"{SHOTS}/{len(stages)}-{name.replace(' ', '-')}.png")
        reader.acts, began = 0, time.monotonic()

    page.set_default_timeout(120_000)
    page.goto(page_url)
    page.wait_for_function("window.Studio && window.Studio.started")
    page.get_by_label("Name").first.fill("Colon")
    page.get_by_label("Folder or CSV on this machine").fill(str(folder))
    reader.acts += 2
    reader.click("Import")
    page.get_by_role("heading", name="Colon").wait_for()
    stage("imported")
    page.locator(".go-look").click()
    reader.acts += 1
    page.get_by_role("tab", name="Review", exact=True).click()
    reader.acts += 1
    page.wait_for_function(f"{WIDGET}?.review?.picture && {WIDGET}.review.run && {WIDGET}.review.heat", timeout=HOUR)
    before = page.evaluate(f"{WIDGET}.review.run")
    stage("first scores")
    while rows(unused.home, "SELECT id FROM jobs WHERE status IN ('queued', 'running')"):
        page.wait_for_timeout(200)
    page.locator(".rv-row").first.click()  # the highest score; from here on the keyboard has the image
    reader.acts += 1
    stage("looked at")

    quality, read = [], 0
    while len(quality) < MARKS:
        settle(page)
        if reader.case()[1] == "abnormal":
            quality.append(reader.mark())
            if len(quality) == MARKS // 2:
                stage("five marked")
            reader.decide("a")
        else:
            reader.decide("n")
        read += 1
    print(json.dumps({"read": read, "snapped": reader.snapped, "dice": [round(d, 2) for d in quality]}))
    stage("ten marked")
    offer = page.locator(".rv-offer")
    offer.wait_for()
    reader.click("Learn", offer)
    offer.get_by_role("button", name="Before and after").wait_for(timeout=HOUR)
    print(offer.inner_text())
    assert page.evaluate(f"{WIDGET}.review.run") == before, "nothing changes before somebody asks"
    stage("learnt")
    reader.click("Before and after", offer)
    dialog = page.locator("dialog.rv-learn")
    dialog.locator(".rv-before-after canvas").last.wait_for()
    stage("gain")
    reader.click("Side by side", dialog)
    page.wait_for_function(f"{WIDGET}.review.second?.run === '{before}'")
    settle(page)
    stage("side by side")
    reader.click("Learn from marks")
    with page.expect_response("**/adopt"):
        reader.click("Adopt", dialog)
    reader.click("Close", dialog)
    page.goto(f"{page_url}?study=colon&tab=review")
    page.wait_for_function(f"{WIDGET}?.review?.picture && {WIDGET}.review.heat")
    learnt = page.evaluate(f"{WIDGET}.review.run")
    assert learnt != before, page.evaluate(REACHED)
    stage("adopted")
    for _ in range(5):
        reader.decide("a" if reader.case()[1] == "abnormal" else "n")
    stage("read on")
    assert rows(unused.home, "SELECT count(*) FROM case_marks WHERE finished = 1") == [(MARKS,)]
    assert rows(unused.home, "SELECT count(*) FROM reviews WHERE active = 1") == [(read + 5,)]
    assert np.mean(quality) > CLOSE
