"""Accounts of those who sign in, for administrators. A password is answered once, and no cache keeps it."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Response

from app.access.permissions import Administrator, Studio
from app.routes._types import Answer, Body, Name, Part
from core.studio.ingest.studies import study_row
from core.studio.review import people

router = APIRouter(prefix="/api/accounts", tags=["accounts"])
ONCE = {"Cache-Control": "no-store"}
Role = Literal["reader", "adjudicator", "administrator"]


class Account(Body):
    """A reader's account, by its name."""

    name: Name


class AccountRole(Account):
    role: Role


class KeptAccount(Part):
    """An account, and how far its reader is with one study.

    seen: when last known to be here, or null. last: the only administrator there is. tokens: by which programs sign in
    as the reader. The other numbers are of the study's cases; read: of those assigned.
    """

    name: str
    role: Role
    created: str
    seen: str | None
    last: bool
    tokens: int
    assigned: int
    read: int
    read_in_all: int


class Accounts(Answer):
    """All accounts. sign_in: whether people sign in at all. you: the name of whoever asks."""

    sign_in: bool
    you: str
    accounts: list[KeptAccount]


class NewPassword(Answer):
    """A new password of an account. password: answered this once."""

    name: str
    password: str


class KeptAccountName(Answer):
    name: str


@router.get("/{study}", response_model=Accounts)
def everybody(ctx: Studio, who: Administrator, study: str):
    """Who can sign in, and how far each is with the study."""
    study_row(ctx.store(), study)
    rows = people.list_accounts(ctx.store(), study)
    return {"ok": True, "sign_in": not ctx.single_user, "you": who, "accounts": rows}


@router.post("", response_model=NewPassword)
def invite(ctx: Studio, who: Administrator, response: Response, body: AccountRole):
    """Make an account with a password that is answered this once."""
    response.headers.update(ONCE)
    password = people.invite(ctx.store(), body.name.strip(), body.role, who)
    return {"ok": True, "name": body.name.strip(), "password": password}


@router.post("/set/role", response_model=KeptAccountName)
def set_role(ctx: Studio, who: Administrator, body: AccountRole):
    """Give an account another role."""
    people.set_role(ctx.store(), body.name, body.role, who)
    return {"ok": True, "name": body.name}


@router.post("/set/password", response_model=NewPassword)
def reset(ctx: Studio, who: Administrator, response: Response, body: Account):
    """Give an account a new password; its sessions end."""
    response.headers.update(ONCE)
    password = people.reset_password(ctx.store(), body.name, who)
    return {"ok": True, "name": body.name, "password": password}


@router.post("/set/tokens", response_model=KeptAccountName)
def revoke(ctx: Studio, who: Administrator, body: Account):
    """Take back all tokens of an account: programs that sign in by them are refused from then on."""
    people.revoke_tokens(ctx.store(), body.name, who)
    return {"ok": True, "name": body.name}


@router.post("/set/removed", response_model=KeptAccountName)
def remove(ctx: Studio, who: Administrator, body: Account):
    """Remove an account; what its reader stored stays."""
    people.remove_account(ctx.store(), body.name, who)
    return {"ok": True, "name": body.name}
