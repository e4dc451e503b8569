"""What colours a map."""

from __future__ import annotations

from types import SimpleNamespace

from core.studio.clusters import explore
from core.studio.db.store import now
from core.studio.runs import records as runs


def test_the_lesion_heads_scores_are_offered_first(world):
    store = world.store
    case = store.one("SELECT id FROM cases WHERE study = ?", [world.study])["id"]
    other = runs.create_run(store, world.study, "pretrain", "pmsacl", {"size": 32})
    made = {}
    for name, method, parent in (("old", "lesion-head", world.run), ("elsewhere", "lesion-head", other),
                                 ("head", "lesion-head", world.run), ("igd", "igd", world.run)):  # fmt: skip
        made[name] = runs.create_run(store, world.study, "fit", method, {}, parent=parent)
        # Made within a millisecond of each other, as no one makes them.
        store.execute("UPDATE runs SET created = ? WHERE id = ?", [f"2026-01-0{len(made)}", made[name]])
        store.execute(
            "INSERT INTO readings (run, case_id, score, created) VALUES (?, ?, 1, ?)", [made[name], case, now()]
        )
    offered = explore.fits(store, SimpleNamespace(about={"study": world.study, "run": world.run}))
    assert [r["id"] for r in offered] == [made[n] for n in ("head", "old", "igd", "elsewhere")]
    for run in (*made.values(), other):
        store.execute("DELETE FROM runs WHERE id = ?", [run])
