"""The pages before the studio's own, of one form each: sign in, and change one's password. They need no script."""

from __future__ import annotations

import html

from fastapi.responses import HTMLResponse

from app.context import APP
from app.theme import variables

FRAME = (APP / "static" / "door.html").read_text()
LONGEST_NAME, LONGEST_PASSWORD = 64, 1024
SIGN_IN = """<label>Name<input name="name" autocomplete="username" required autofocus></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required></label>
<p role="alert">{message}</p>
<button>Sign in</button>"""
PASSWORD = """<p class="note">Password of <strong>{name}</strong></p>
<label>Password of today<input name="old" type="password" autocomplete="current-password" required autofocus></label>
<label>New password<input name="new" type="password" autocomplete="new-password" minlength="{least}" required></label>
<label>New password, once more<input name="again" type="password" autocomplete="new-password" required></label>
<p role="alert">{message}</p>
<button>Change it</button>
<a href="/">Back to the studio</a>"""
CHANGED = """<p role="status">The password of <strong>{name}</strong> is changed. Every other browser is signed out.</p>
<a href="/">Back to the studio</a>"""


def page(title: str, form: str, status: int = 200, headers: dict | None = None, **values: object) -> HTMLResponse:
    """`form` with `values` in its braces, each escaped, in the frame that all these pages have."""
    inner = form.format(**{key: html.escape(str(value)) for key, value in values.items()})
    text = FRAME.replace("/*variables*/", variables()).replace("<!--title-->", title).replace("<!--form-->", inner)
    return HTMLResponse(text, status, headers)
