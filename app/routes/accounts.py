"""The accounts of readers, for administrators. A new password is shown once, and no cache stores it."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Response

from app.access.permissions import Administrator, Studio
from app.routes._types import Answer, Body, Name, Part
from core.studio.review import people

router = APIRouter(prefix="/api/accounts", tags=["accounts"])
ONCE = {"Cache-Control": "no-store"}
Role = Literal["reader", "adjudicator", "administrator"]


class Account(Body):
    """The name of a reader's account."""

    name: Name


class AccountRole(Account):
    role: Role


class KeptAccount(Part):
    """An account, with its reader's progress in one study.

    seen: when the reader last signed in or decided, or null. last: whether this is the only administrator. tokens:
    number of tokens. assigned, read: the study's assigned cases, and how many are read. read_in_all: all read cases.
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
    """All accounts. sign_in: whether readers sign in (false in single-user mode). you: the current reader's name."""

    sign_in: bool
    you: str
    accounts: list[KeptAccount]


class NewPassword(Answer):
    """A new password of an account. password: shown only this once."""

    name: str
    password: str


class KeptAccountName(Answer):
    name: str


@router.get("/{study}", response_model=Accounts)
def everybody(ctx: Studio, who: Administrator, study: str):
    """List the accounts, with each reader's progress in the study."""
    rows = people.list_accounts(ctx.store(), study)
    return {"ok": True, "sign_in": not ctx.single_user, "you": who, "accounts": rows}


@router.post("", response_model=NewPassword)
def invite(ctx: Studio, who: Administrator, response: Response, body: AccountRole):
    """Create an account; its password is shown only this once."""
    response.headers.update(ONCE)
    password = people.invite(ctx.store(), body.name.strip(), body.role, who)
    return {"ok": True, "name": body.name.strip(), "password": password}


@router.post("/set/role", response_model=KeptAccountName)
def set_role(ctx: Studio, who: Administrator, body: AccountRole):
    """Change an account's role."""
    people.set_role(ctx.store(), body.name, body.role, who)
    return {"ok": True, "name": body.name}


@router.post("/set/password", response_model=NewPassword)
def reset(ctx: Studio, who: Administrator, response: Response, body: Account):
    """Give an account a new password; its sessions and tokens end."""
    response.headers.update(ONCE)
    password = people.reset_password(ctx.store(), body.name, who)
    return {"ok": True, "name": body.name, "password": password}


@router.post("/set/tokens", response_model=KeptAccountName)
def revoke(ctx: Studio, who: Administrator, body: Account):
    """Revoke all tokens of an account: programs that sign in with them are refused from then on."""
    people.revoke_tokens(ctx.store(), body.name, who)
    return {"ok": True, "name": body.name}


@router.post("/set/removed", response_model=KeptAccountName)
def remove(ctx: Studio, who: Administrator, body: Account):
    """Remove an account; its reader's work is kept."""
    people.remove_account(ctx.store(), body.name, who)
    return {"ok": True, "name": body.name}
