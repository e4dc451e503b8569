"""Faults, made on purpose."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

from tests.benches import _fault_backup, _fault_data, _fault_files, _fault_work, bench
from tests.benches._fault import Place

TRIES, QUICK = 30, 2
FAULTS = {
    fault.__name__.replace("_", "-"): fault
    for module in (_fault_data, _fault_files, _fault_backup, _fault_work)
    for fault in module.FAULTS
}


@bench("faults")
def faults(quick: bool = False, only: tuple[str, ...] = ()) -> dict:
    """Faults, made on purpose: what was answered is there, and nothing is that must not be (0 lost, 0 leaked).

    Each fault is made many times in a home of its own; --only NAME (as in the list, with - for spaces) makes one of
    them.

    {"faults": [{"name", "tries", "lost", "leaked", "seconds" (the longest recovery)}], "lost", "leaked"}.
    """
    unknown = sorted(set(only) - set(FAULTS))
    if unknown:
        raise ValueError(f"unknown fault {unknown[0]!r}; choose from: {', '.join(FAULTS)}")
    logging.getLogger("core.studio.ingest.cache").setLevel(logging.ERROR)  # it says what is damaged here on purpose
    rows = []
    for name, fault in FAULTS.items():
        if not only or name in only:
            with tempfile.TemporaryDirectory(prefix="pmsacl-faults-") as folder:
                rows.append(fault(Place(Path(folder), QUICK if quick else TRIES)).row())
    return {"faults": rows, "lost": sum(r["lost"] for r in rows), "leaked": sum(r["leaked"] for r in rows)}
