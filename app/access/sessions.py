"""Session cookies: a name, the time of sign-in and a seal. Nothing is kept in memory, so a restart signs nobody out."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time

HOURS = 12


class Sessions:
    """Makes and reads cookies sealed with a secret kept in the home (0600)."""

    COOKIE = "pmsacl_session"

    def __init__(self, home_path, hours: float = HOURS):
        self.seconds = hours * 3600
        path = home_path / "session.key"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_bytes(secrets.token_bytes(32))
        self._key = path.read_bytes()

    def _seal(self, body: bytes) -> bytes:
        return hmac.new(self._key, body, hashlib.sha256).digest()

    def make(self, name: str) -> str:
        """The cookie's value for a reader who has just signed in."""
        body = f"{int(time.time())}:{name}".encode()
        return base64.urlsafe_b64encode(self._seal(body) + body).decode()

    def name_of(self, cookie: str | None) -> str | None:
        """The reader's name, or None when the cookie is absent, altered or too old."""
        try:
            raw = base64.urlsafe_b64decode((cookie or "").encode())
        except ValueError:
            return None
        seal, body = raw[:32], raw[32:]
        if not body or not hmac.compare_digest(seal, self._seal(body)):
            return None
        born, _, name = body.decode().partition(":")
        return name if 0 <= time.time() - int(born) <= self.seconds else None
