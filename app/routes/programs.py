"""A route for programs that scores a single image, which belongs to no study and is not stored."""

from __future__ import annotations

import base64
import binascii
import tempfile
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
from fastapi import APIRouter
from pydantic import StringConstraints

from app.access.permissions import Sighted, Studio
from app.access.turns import waits_for_memory
from app.routes._types import Answer, Body, Name
from core.engine.calibration.quantise import quantise
from core.studio.db.limits import MB
from core.studio.ingest.decode import read_image
from core.studio.programs.looks import Looks

router = APIRouter(prefix="/api/programs", tags=["programs"])
IMAGE = 900 * MB  # memory of one request: a few kilobytes may decode to 150 megapixels


class OneImage(Body):
    """Image to score with a fitted detector, the run `run`.

    image: Content of an image file (PNG, JPEG, TIFF, DICOM, ...) as base64, or as a data URL.
    heat_map: Whether to return the heat map.
    """

    run: Name
    image: Annotated[str, StringConstraints(max_length=16 << 20)]
    heat_map: bool = False


class Look(Answer):
    """Result of a fit for one image. `threshold`, `percentile` and `flagged` are null if the fit has scored no study.

    threshold: Score above which the fit flags an image.
    percentile: Percentile of the score among the scores of held-out normals.
    heat_map: 16-bit PNG as a data URL. Pixel value 0 stands for the heat value `low`, 65535 for `high`.
    """

    score: float
    threshold: float | None
    percentile: float | None
    flagged: bool | None
    heat_map: str | None
    low: float | None
    high: float | None


@router.post("/score", response_model=Look, dependencies=[waits_for_memory(IMAGE)])
def score(ctx: Studio, who: Sighted, body: OneImage):
    """Scores an image with a finished fit, without storing it."""
    try:
        data = base64.b64decode(body.image.rpartition(",")[2], validate=True)
    except binascii.Error:
        raise ValueError("The image is not base64.") from None
    with tempfile.NamedTemporaryFile(dir=ctx.store().home.cache) as file:
        Path(file.name).write_bytes(data)
        image = read_image(file.name)
        reading, heat = ctx.held(Looks, ctx.store()).at(body.run, image)
    codes, low, high = quantise(heat)
    map_fields = {"heat_map": png_address(codes), "low": low, "high": high} if body.heat_map else {}
    return {"ok": True, "heat_map": None, "low": None, "high": None, **reading, **map_fields}


def png_address(codes: np.ndarray) -> str:
    """Encodes an array, uint16 `(h, w)`, as a 16-bit greyscale PNG in a data URL."""
    return "data:image/png;base64," + base64.b64encode(cv2.imencode(".png", codes)[1].tobytes()).decode()
