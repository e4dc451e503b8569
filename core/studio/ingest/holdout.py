"""Which training normals are held out, to set thresholds by."""

from __future__ import annotations

import hashlib

from core.studio.ingest.reader import Found

HOLDOUT_FRACTION = 0.25
HOLDOUT_LEAST = 20  # when there are HOLDOUT_FROM normals or more
HOLDOUT_FROM = 60


def hold_out(found: list[Found]) -> None:
    """Hold out a part of the training normals, chosen by content, so the same files give the same part everywhere.

    Frames of one file and slices of one volume stay on one side, but for a volume that is all there is: without
    held-out slices nothing could be scored. Nothing is chosen when the layout already names a held-out part.
    """
    train = [f for f in found if f.entry.split == "train"]
    if not train or any(f.entry.split == "holdout" for f in found):
        return
    whole: dict[str, str] = {}  # a volume goes by one of its slices
    for f in train:
        series, digest = f.row.get("series"), f.row["sha256"]
        if series:
            whole[series] = min(whole.get(series, digest), digest)
    if len(whole) == 1 and all(f.row.get("series") for f in train):
        whole = {}

    def unit(f: Found) -> str:
        series, digest = f.row.get("series"), f.row["sha256"]
        return whole.get(series, digest) if series else digest

    digests = sorted({unit(f) for f in train})
    count = round(len(digests) * HOLDOUT_FRACTION)
    if len(digests) >= HOLDOUT_FROM:
        count = max(count, HOLDOUT_LEAST)
    elif len(digests) > 1:
        count = max(count, 1)
    ranked = sorted(digests, key=lambda d: hashlib.sha256(f"holdout {d}".encode()).digest())
    chosen = set(ranked[:count])
    for f in train:
        if unit(f) in chosen:
            f.row["split"] = "holdout"
