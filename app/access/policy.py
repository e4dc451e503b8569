"""Content security policies: what a browser may run and load with each kind of answer, never from outside.

No policy allows inline script. Gradio's page carries its configuration in script elements, which get a fresh nonce
for each answer. It evaluates its templates, hence 'unsafe-eval' there, and writes style attributes, hence
'unsafe-inline' for styles. The studio's own pages need neither.
"""

from __future__ import annotations

import base64
import hashlib
import re

_FRAMES = "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
_DATA = "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:"
_STYLE = re.compile(rb"<style[^>]*>(.*?)</style>", re.DOTALL)
_SCRIPT = re.compile(rb"<script\b([^>]*>.*?</script)", re.DOTALL | re.IGNORECASE)

ANSWER = f"default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; {_FRAMES}"
"""The policy of data, pictures, scripts and style sheets: opened directly, none of them runs anything."""


def of_own_page(html: bytes) -> str:
    """Returns the policy of one of our own pages: scripts only from our files, and the style elements in the page."""
    digests = (base64.b64encode(hashlib.sha256(s).digest()).decode() for s in _STYLE.findall(html))
    styles = " ".join(f"'sha256-{d}'" for d in digests)
    sources = f"script-src 'self'; style-src 'self' {styles}".strip()
    return f"default-src 'none'; {sources}; {_DATA}; frame-src 'self'; {_FRAMES}"


def of_gradio(nonce: str) -> str:
    """Returns the policy of Gradio's page, whose script elements carry the nonce."""
    sources = f"script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'"
    return f"default-src 'self'; {sources}; {_DATA}; {_FRAMES}"


def with_nonce(html: bytes, nonce: str) -> bytes:
    """Adds the nonce to each script element of a page; the elements' content is unchanged."""
    return _SCRIPT.sub(rb'<script nonce="%s"\1' % nonce.encode(), html)
