"""Which training normals are held out, to set thresholds by."""

from __future__ import annotations

import hashlib

from core.studio.ingest.reader import Found

HOLDOUT_FRACTION = 0.25
HOLDOUT_LEAST = 20  # when there are HOLDOUT_FROM normals or more
HOLDOUT_FROM = 60


def hold_out(found: list[Found]) -> None:
    """Hold out a part of the training normals, chosen by content, so the same files give the same part everywhere.

    Images of one patient, frames of one file and slices of one volume stay on one side, but for a patient or a volume
    that is all there is: without held-out images nothing could be scored. Nothing is chosen when the layout already
    names a held-out part.
    """
    train = [f for f in found if f.entry.split == "train"]
    if not train or any(f.entry.split == "holdout" for f in found):
        return
    whole: dict[str, str] = {}  # a patient or a volume goes by one of its images
    for f in train:
        one, digest = _whole(f), f.row["sha256"]
        if one:
            whole[one] = min(whole.get(one, digest), digest)
    if len(whole) == 1 and all(map(_whole, train)):
        whole = {}

    def unit(f: Found) -> str:
        return whole.get(_whole(f) or "", f.row["sha256"])

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


def _whole(f: Found) -> str | None:
    """What a frame must not be parted from: its patient, else its volume."""
    return f.row.get("patient") or f.row.get("series")
