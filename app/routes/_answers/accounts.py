"""What administrators see of the accounts of those who sign in."""

from __future__ import annotations

from typing import Any, Literal

from app.routes._answers.shared import Answer

Role = Literal["reader", "adjudicator", "administrator"]


class KeptAccount(Answer):
    """seen: when last known to be here, or null. last: the only administrator there is. The numbers are of one study's
    cases; read: of those assigned."""

    name: str
    role: Role
    created: str
    seen: str | None
    last: bool
    assigned: int
    read: int
    read_in_all: int


class Accounts(Answer):
    """sign_in: whether people sign in at all. you: the name of whoever asks."""

    sign_in: bool
    you: str
    accounts: list[KeptAccount]


class NewPassword(Answer):
    """password: answered this once."""

    name: str
    password: str


class KeptAccountName(Answer):
    name: str


ANSWERS: dict[str, Any] = {
    "GET /api/accounts/{study}": Accounts,
    "POST /api/accounts": NewPassword,
    "POST /api/accounts/set/role": KeptAccountName,
    "POST /api/accounts/set/password": NewPassword,
    "POST /api/accounts/set/removed": KeptAccountName,
}
BINARY: dict[str, tuple[str, ...]] = {}
