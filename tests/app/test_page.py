"""The page's head: each of its modules has an address under which the browser may keep it."""

from __future__ import annotations

import hashlib
import json
import re

from app.context import APP
from app.page import head


def test_a_module_that_another_imports_is_asked_for_by_its_version():
    found = json.loads(re.search(r'<script type="importmap">(.*?)</script>', head())[1])["imports"]
    modules = {m.relative_to(APP).as_posix() for part in ("static", "widgets") for m in (APP / part).rglob("*.js")}
    addresses = {address: versioned for address, versioned in found.items() if address.startswith("/")}
    assert set(addresses) == {f"/page/{m}" for m in modules} and "static/dom.js" in modules
    named = set(found) - set(addresses)  # vendored libraries, imported by name
    assert "preact" in named and {found[name] for name in named} <= {addresses[a] for a in addresses if "/vendor/" in a}
    for address, versioned in addresses.items():
        digest = hashlib.sha256((APP / address.removeprefix("/page/")).read_bytes()).hexdigest()
        assert versioned == f"{address}?v={digest[:10]}"


def test_the_map_stands_before_every_module():
    """A browser ignores one that comes after the first module."""
    assert head().index('type="importmap"') < head().index('type="module"')
