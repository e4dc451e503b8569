"""The route that is for programs alone: it scores an image that is in no study. Nothing of it is kept."""

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
from app.access.turns import heavy
from app.routes._types import Answer, Body, Name
from core.engine.calibration.quantise import quantise
from core.studio.db.limits import MB
from core.studio.ingest.decode import read_image
from core.studio.programs.looks import Looks

router = APIRouter(prefix="/api/programs", tags=["programs"])
IMAGE = 900 * MB  # of memory: a few kilobytes may unpack to 150 megapixels


class OneImage(Body):
    """An image to score.

    image: the bytes of an image file (PNG, JPEG, TIFF, DICOM, ...) as base64, with or without "data:...;base64," before
    it. heat_map: whether its heat map is wanted.
    """

    run: Name
    image: Annotated[str, StringConstraints(max_length=16 << 20)]
    heat_map: bool = False


class Look(Answer):
    """What a fit says of an image.

    threshold: the score above which the run flags an image. percentile: of its held-out normals. These and flagged are
    null before its study is scored. heat_map: PNG, 16 bits, a data address; low and high: its 0 and 65535.
    """

    score: float
    threshold: float | None
    percentile: float | None
    flagged: bool | None
    heat_map: str | None
    low: float | None
    high: float | None


@router.post("/score", response_model=Look, dependencies=[heavy(IMAGE)])
def score(ctx: Studio, who: Sighted, body: OneImage):
    """Score an image that is in no study by a finished fit."""
    try:
        data = base64.b64decode(body.image.rpartition(",")[2], validate=True)
    except binascii.Error:
        raise ValueError("The image is not base64.") from None
    with tempfile.NamedTemporaryFile(dir=ctx.store().home.cache) as file:
        Path(file.name).write_bytes(data)
        image = read_image(file.name)
        reading, heat = ctx.held(Looks, ctx.store()).at(body.run, image)
    codes, low, high = quantise(heat)
    shown = {"heat_map": png_address(codes), "low": low, "high": high} if body.heat_map else {}
    return {"ok": True, "heat_map": None, "low": None, "high": None, **reading, **shown}


def png_address(codes: np.ndarray) -> str:
    """Encodes codes uint16 (h, w) as a PNG in a data address."""
    return "data:image/png;base64," + base64.b64encode(cv2.imencode(".png", codes)[1].tobytes()).decode()
