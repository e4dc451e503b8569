"""Routes for administrators to manage readers' accounts. A new password is shown once and never cached."""

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
    """Account, given by its reader's name."""

    name: Name


class AccountRole(Account):
    role: Role


class KeptAccount(Part):
    """Account with its number of access `tokens`, and its reader's progress in a study.

    seen: Time of the last sign-in or decision, or null.
    last: Whether this is the only administrator account.
    assigned: Number of the study's cases assigned to the reader.
    read: Number of these assigned cases that the reader has read.
    read_in_all: Number of cases of the study that the reader has read, assigned or not.
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
    """All accounts. `sign_in` is false in single-user mode; `you` is the current reader's name."""

    sign_in: bool
    you: str
    accounts: list[KeptAccount]


class NewPassword(Answer):
    """New password of an account, which is shown only once."""

    name: str
    password: str


class KeptAccountName(Answer):
    name: str


@router.get("/{study}", response_model=Accounts)
def everybody(ctx: Studio, who: Administrator, study: str):
    """Lists the accounts, with each reader's progress in the study."""
    rows = people.list_accounts(ctx.store(), study)
    return {"ok": True, "sign_in": not ctx.single_user, "you": who, "accounts": rows}


@router.post("", response_model=NewPassword)
def invite(ctx: Studio, who: Administrator, response: Response, body: AccountRole):
    """Creates an account and returns its password, which is shown only once."""
    response.headers.update(ONCE)
    password = people.invite(ctx.store(), body.name.strip(), body.role, who)
    return {"ok": True, "name": body.name.strip(), "password": password}


@router.post("/set/role", response_model=KeptAccountName)
def set_role(ctx: Studio, who: Administrator, body: AccountRole):
    """Changes the role of an account."""
    people.set_role(ctx.store(), body.name, body.role, who)
    return {"ok": True, "name": body.name}


@router.post("/set/password", response_model=NewPassword)
def reset(ctx: Studio, who: Administrator, response: Response, body: Account):
    """Sets a new password for an account, ends its sessions and revokes its access tokens."""
    response.headers.update(ONCE)
    password = people.reset_password(ctx.store(), body.name, who)
    return {"ok": True, "name": body.name, "password": password}


@router.post("/set/tokens", response_model=KeptAccountName)
def revoke(ctx: Studio, who: Administrator, body: Account):
    """Revokes all access tokens of an account, so that programs can no longer sign in with them."""
    people.revoke_tokens(ctx.store(), body.name, who)
    return {"ok": True, "name": body.name}


@router.post("/set/removed", response_model=KeptAccountName)
def remove(ctx: Studio, who: Administrator, body: Account):
    """Removes an account. The reader's work in the studies is kept."""
    people.remove_account(ctx.store(), body.name, who)
    return {"ok": True, "name": body.name}
