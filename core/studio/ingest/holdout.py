"""Chooses the training normals that are held out to set thresholds."""

from __future__ import annotations

import hashlib

from core.studio.ingest.reader import Found

HOLDOUT_FRACTION = 0.25
HOLDOUT_LEAST = 20  # when there are HOLDOUT_FROM normals or more
HOLDOUT_FROM = 60


def hold_out(files: list[Found]) -> None:
    """Holds out part of the training normals, chosen by content, so that the same files are held out everywhere.

    Images of one patient, frames of one file and slices of one volume stay together, unless there is only one patient
    or volume: without held-out images nothing could be scored. Nothing is chosen if the layout already names a held-out
    part.
    """
    train = [f for f in files if f.entry.split == "train"]
    if not train or any(f.entry.split == "holdout" for f in files):
        return
    units = next((u for u in (_units(train, True), _units(train, False)) if len(set(u)) > 1), None)
    units = units or [f.row["sha256"] for f in train]
    digests = sorted(set(units))
    count = round(len(digests) * HOLDOUT_FRACTION)
    if len(digests) >= HOLDOUT_FROM:
        count = max(count, HOLDOUT_LEAST)
    elif len(digests) > 1:
        count = max(count, 1)
    ranked = sorted(digests, key=lambda d: hashlib.sha256(f"holdout {d}".encode()).digest())
    chosen = set(ranked[:count])
    for f, unit in zip(train, units, strict=True):
        if unit in chosen:
            f.row["split"] = "holdout"


def _units(train: list[Found], patients: bool) -> list[str]:
    """Returns what each frame must not be separated from (its patient if asked for, else its volume, else its file),
    named by the least digest of its images."""
    names = [(patients and f.row.get("patient")) or f.row.get("series") or f.row["sha256"] for f in train]
    least: dict[str, str] = {}
    for name, f in zip(names, train, strict=True):
        least[name] = min(least.get(name, f.row["sha256"]), f.row["sha256"])
    return [least[name] for name in names]
