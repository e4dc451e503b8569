"""Which arms of an experiment are better than which."""

from __future__ import annotations

from core.studio.db.store import Store
from core.studio.report.arms import Arm
from core.studio.report.cells import Cell
from core.studio.report.summary import Claim, judged_claims
from core.studio.report.tables import Table


def claims_of_rows(store: Store, arms: list[Arm], pairs: list[tuple[str, str]], rows: list[dict]) -> list[Claim]:
    """Judges the claims of an experiment by its rows inside the region of interest.

    Pairs without both arms are left out. rows: as `results.evaluate_run` gives them, with `label` and `seed`.
    """
    labels = {row["label"] for row in rows}
    table = Table("experiment", "", ("auroc", "dice"), tuple(arms), tuple(p for p in pairs if set(p) <= labels))
    inside = [row for row in rows if row["roi"]]
    cells = [Cell(r["label"], r["seed"], r["run"], rows={(r["protocol"], True): r}) for r in inside]
    return judged_claims(store, [table], {table.name: cells}, True, "held-out")


def claims_markdown(claims: list[Claim]) -> str:
    """Writes claims as a table in Markdown; p is corrected by Holm's rule."""
    lines = [f"| {c.better} | {c.than} | {c.metric} | {c.difference:+.3f} | {c.corrected:.3f} |" for c in claims]
    return "\n".join(["| | less | | difference | p |", "|---|---|---|---|---|", *lines])
