"""All scored runs of a study side by side, as they were evaluated, with the mean-colour baseline."""

from __future__ import annotations

from core.studio.db.store import Store
from core.studio.runs.results import BASELINE, evaluations

MEASURES = ("auroc", "pixel_auroc", "dice", "pro")


def compared(store: Store, study: str, runs: list[dict], roi: bool = True) -> list[dict]:
    """[{"run", "title", "name", "encoder", and of each measure the value and its 95 % interval, "best"}].

    runs: as `cases.scored_runs` gives them; the order is theirs, the baseline (run None) last. Measures: image AUROC,
    pixel AUROC, Dice at the threshold of held-out normals, PRO; None where a run has not been evaluated, or has no
    lesion masks to be measured by. best: names of the measures in which no other row is better.
    """
    kept = {r["run"]: r for r in evaluations(store, study) if r["roi"] == roi and r["protocol"] == "held-out"}
    rows = [{k: r[k] for k in ("title", "name", "encoder")} | {"run": r["id"]} for r in runs]
    if None in kept and kept[None]["detector"] == BASELINE:
        rows.append({"run": None, "title": "Mean colour", "name": "no training", "encoder": None})
    for row in rows:
        found = kept.get(row["run"], {})
        row |= {m: found.get(m) for m in MEASURES} | {f"{m}_ci": found.get(f"{m}_ci") for m in MEASURES}
    top = {m: max((r[m] for r in rows if r[m] is not None), default=None) for m in MEASURES}
    for row in rows:
        row["best"] = [m for m in MEASURES if row[m] is not None and row[m] == top[m]]
    return rows
