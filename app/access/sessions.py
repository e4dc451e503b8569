"""Sign-in cookies, signed with the home's key: one for the session, and one that marks a browser as known to a reader.

Sessions are stored in the database (core/studio/review/people.py), so that they can be ended at any time.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from itsdangerous import BadSignature, URLSafeSerializer, URLSafeTimedSerializer

from core.engine.files import built
from core.studio.db.store import Store
from core.studio.review import people

HOURS = 12
KNOWN_DAYS = 180
KEY_BYTES = 32


def read_key(path: Path) -> bytes:
    """Returns the home's key, stored in a file that only its owner may read. Creates the key if no valid one exists."""

    def make(own: Path) -> None:
        own.touch(0o600)
        own.write_bytes(secrets.token_bytes(KEY_BYTES))

    def read() -> bytes | None:
        key = path.read_bytes()
        return key if len(key) >= KEY_BYTES else None

    return built(path, read, make)


class Sessions:
    """Creates, reads and ends the session cookies of a home. A session expires after `hours` hours."""

    COOKIE = "pmsacl_session"
    KNOWN = "pmsacl_known"  # kept after signing out: see app/access/sign_in.py

    def __init__(self, store: Store, hours: float = HOURS):
        self.hours = hours
        self._store = store
        key = read_key(Path(store.home.path) / "session.key")
        self._session = URLSafeSerializer(key, salt="session")
        self._known = URLSafeTimedSerializer(key, salt="known browser")

    def start(self, name: str) -> str:
        """Starts a session for a reader who has just signed in. Returns the value of the session cookie."""
        return str(self._session.dumps(people.start_sign_in(self._store, name, self.hours)))

    def name_of(self, cookie: str | None) -> str | None:
        """Returns the reader's name, or None if the cookie is missing or altered, or its session has ended."""
        secret = self._secret(cookie)
        return None if secret is None else people.reader_of_sign_in(self._store, secret)

    def end(self, cookie: str | None) -> None:
        """Ends the session of a cookie; an invalid cookie is ignored."""
        secret = self._secret(cookie)
        if secret is not None:
            people.end_sign_in(self._store, secret)

    def _secret(self, cookie: str | None) -> str | None:
        try:
            secret = self._session.loads(cookie or "")
        except BadSignature:
            return None
        return secret if isinstance(secret, str) else None

    def mark_browser(self, name: str) -> str:
        """Returns a cookie value that proves that `name` has signed in from this browser with the current password."""
        mark = people.password_mark(self._store, name)
        return str(self._known.dumps([name, mark, secrets.token_urlsafe(12)]))

    def known_browser(self, cookie: str | None, name: str) -> str | None:
        """Returns the token in a cookie from `mark_browser`, or None if it is not valid for `name` and the password."""
        try:
            cookie_values = self._known.loads(cookie or "", max_age=KNOWN_DAYS * 86400)
        except BadSignature:  # also if expired
            return None
        if not isinstance(cookie_values, list) or cookie_values[:2] != [name, people.password_mark(self._store, name)]:
            return None
        return str(cookie_values[2])
