"""Bodies of readers' accounts."""

from __future__ import annotations

from typing import Literal

from app.routes._bodies.base import Body
from app.routes._types import Name


class Account(Body):
    """A reader's account, by its name."""

    name: Name


class AccountRole(Account):
    role: Literal["reader", "adjudicator", "administrator"]
