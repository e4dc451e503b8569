"""Every route, whatever its method, with odd paths and with bodies that lack a key: never a 5xx."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from core.studio.training import dryrun
from tests.app.routes.test_bodies import FOLDERS, ODD, asked, fields_of, send  # noqa: F401
from tests.studio.review.conftest import STUDY, room  # noqa: F401


@pytest.mark.long
def test_no_path_and_no_missing_key_breaks_a_route(asked, monkeypatch):  # noqa: F811
    """Every route, whatever its method: odd parts of its path; and a whole body without one of its keys."""
    monkeypatch.setattr(dryrun, "dry_run", lambda *args: {})
    _, client, found = asked
    wrong = []
    for route in found:
        names = sorted(set(fields_of(route)) - FOLDERS)
        bodies = [{n: "none" for n in names if n != left} for left in names] or [None]
        paths = [route.path.replace("{case_id}", "1").replace("{study}", STUDY + "x")] * len(bodies)
        calls = list(zip(paths, bodies, strict=True))
        if "GET" not in route.methods:
            for odd in ODD:
                path = re.sub(r"\{\w+\}", quote(odd or "x", safe=""), route.path)
                calls.append((path, {n: "none" for n in names} or None))
        for path, body in calls:
            answer = send(client, *route.methods, path, body) if body else client.request(*route.methods, path)
            if answer.status_code >= 500:
                wrong.append(f"{route.methods} {path:.80} {body!r:.60}: {answer.text}")
    assert not wrong, "\n".join(wrong)
