"""Stand-alone pages with one form each: sign in, change the password, manage tokens. They need no script."""

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
<a href="./">Back to the studio</a>"""
CHANGED = """<p role="status">The password of <strong>{name}</strong> is changed. Every other browser is signed out.</p>
<a href="./">Back to the studio</a>"""

TOKENS = """<p class="note">Programs sign in as <strong>{name}</strong> by a token, in the header
<code>Authorization: Bearer ...</code>. Whoever has it may do what you may. A new password ends all tokens.</p>
<label>What a new token is for<input name="name" maxlength="64" autofocus></label>
<p role="alert">{message}</p>
<button name="act" value="make">Make a token</button>
<!--rows-->
<a href="./">Back to the studio</a>"""
TOKEN = """<p class="note">Token for <strong>{purpose}</strong>. It is shown only now: put it where nobody else
reads it.</p>
<input readonly aria-label="Token" value="{token}" autofocus>
<a href="tokens">All tokens</a>"""
TOKEN_ROW = """<div class="row"><span>{name}<br><i>made {created}</i></span>
<button class="plain" name="revoke" value="{id}" formnovalidate aria-label="Revoke {name}">Revoke</button></div>"""


def filled(form: str, **values: object) -> str:
    """Fills the {placeholders} of `form` with `values`, each escaped as HTML."""
    return form.format(**{key: html.escape(str(value)) for key, value in values.items()})


def page(
    title: str, form: str, status: int = 200, headers: dict | None = None, rows: str = "", **values: object
) -> HTMLResponse:
    """Returns the page of a form: its {placeholders} filled with `values`, in the frame that all these pages share.

    rows: HTML to insert as the form's rows.
    """
    inner = filled(form, **values).replace("<!--rows-->", rows)
    text = FRAME.replace("/*variables*/", variables()).replace("<!--title-->", title).replace("<!--form-->", inner)
    return HTMLResponse(text, status, headers)
