"""Sign-in cookies, signed with the home's key: the session, and a mark of browsers from which a reader has signed in.

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
    """Returns the home's key, from a file that only its owner may read. Creates a key if there is no valid one."""

    def make(own: Path) -> None:
        own.touch(0o600)
        own.write_bytes(secrets.token_bytes(KEY_BYTES))

    def read() -> bytes | None:
        key = path.read_bytes()
        return key if len(key) >= KEY_BYTES else None

    return built(path, read, make)


class Sessions:
    """Creates, reads and ends the session cookies of a home. A session lasts `hours` hours."""

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
        """Returns a cookie value that shows that `name` signed in from this browser with the current password."""
        mark = people.password_mark(self._store, name)
        return str(self._known.dumps([name, mark, secrets.token_urlsafe(12)]))

    def known_browser(self, cookie: str | None, name: str) -> str | None:
        """Returns the token in a `mark_browser` cookie, or None unless it fits `name` and the current password."""
        try:
            cookie_values = self._known.loads(cookie or "", max_age=KNOWN_DAYS * 86400)
        except BadSignature:  # also if expired
            return None
        if not isinstance(cookie_values, list) or cookie_values[:2] != [name, people.password_mark(self._store, name)]:
            return None
        return str(cookie_values[2])
