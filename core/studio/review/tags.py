"""Tags of cases: put on and taken off many at once; which of them may give a label away."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Set
from typing import Any

from core.studio.db import audit
from core.studio.db.store import Store

LONGEST = 60


def clean(name: str) -> str:
    """The tag as it is kept. Raises ValueError if it is empty, too long, or holds a comma."""
    name = " ".join(name.split())
    if not name or len(name) > LONGEST or "," in name:
        raise ValueError(f"A tag has 1 to {LONGEST} characters and no comma.")
    return name


def change(store: Store, study: str, cases: Iterable[int], name: str, by: str, remove: bool = False) -> int:
    """Put a tag on cases of a study, or take it off; returns how many changed. One event of the audit trail."""
    name = clean(name)
    changed = []
    with store.write() as db:
        known = by_people(store, study)
        wanted = json.dumps(list(cases))
        rows = store.query(
            "SELECT c.id, c.tags FROM json_each(?) j CROSS JOIN cases c ON c.id = j.value AND c.study = ?",
            [wanted, study],
        )
        for row in rows:
            before = set(json.loads(row["tags"]))
            after = before - {name} if remove else before | {name}
            if after != before:
                db.execute("UPDATE cases SET tags = ? WHERE id = ?", [json.dumps(sorted(after)), row["id"]])
                changed.append(row["id"])
        if changed and not remove and name not in known:
            store.set_setting(f"tags:{study}", sorted(known | {name}))
        if changed:
            audit.record(store, by, "untag" if remove else "tag", study=study, after={"tag": name, "cases": changed})
    return len(changed)


def of_study(store: Store, study: str, splits: tuple[str, ...]) -> list[dict]:
    """[{"tag", "cases"}] of a study's cases in those splits, by name."""
    marks = ", ".join("?" * len(splits))
    return store.query(
        "SELECT t.tag, count(*) AS cases FROM cases c JOIN case_tags t ON t.case_id = c.id "
        f"WHERE c.study = ? AND c.split IN ({marks}) GROUP BY t.tag ORDER BY t.tag",
        [study, *splits],
    )


def by_people(store: Store, study: str) -> set[str]:
    """Names of tags that people have put on cases of the study; others came with the import."""
    return set(store.setting(f"tags:{study}", []))


def shown(case: Mapping[str, Any], people: Set[str]) -> dict:
    """{"tags", "kinds"} of a case's row (tags). kinds: those that came with the import, where they name what an image
    shows; `people` is `by_people` of its study.
    """
    tags = json.loads(case["tags"])
    return {"tags": tags, "kinds": [tag for tag in tags if tag not in people]}
