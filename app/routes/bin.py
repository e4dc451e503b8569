"""The bin: runs and studies removed within the last week, and how to restore them."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter

from app.access.permissions import Administrator, Sighted, Studio, owner_of
from app.routes._types import Answer, Done, Part
from core.studio.db import owners
from core.studio.review import people
from core.studio.runs import bin

router = APIRouter(prefix="/api/bin", tags=["bin"])


class Binned(Part):
    """A run or a study in the bin."""

    kind: Literal["run", "study"]
    id: str
    name: str
    study: str
    binned: str
    until: str


class Bin(Answer):
    rows: list[Binned]
    days: int


@router.get("", response_model=Bin)
def contents(ctx: Studio, who: Sighted):
    """List the bin's contents: administrators see everything, readers the runs that they made."""
    store = ctx.store()
    rows = bin.contents(store)
    if not people.rights(store, who, ctx.single_user)["administer"]:
        mine = set(owners.owned(store, "run", who))
        rows = [row for row in rows if row["kind"] == "run" and row["id"] in mine]
    return {"ok": True, "rows": rows, "days": bin.DAYS}


@router.post("/run/{run_id}/restore", response_model=Done)
def restore_run(ctx: Studio, who: Annotated[str, owner_of("run", "run_id")], run_id: str):
    """Restore a run from the bin."""
    bin.restore(ctx.store(), "run", run_id, who)
    return {"ok": True}


@router.post("/study/{study}/restore", response_model=Done)
def restore_study(ctx: Studio, who: Administrator, study: str):
    """Restore a study from the bin."""
    bin.restore(ctx.store(), "study", study, who)
    return {"ok": True}
