"""What each route answers: one model for each route whose answer is JSON, the media types of all others.

Nothing is checked or copied when the studio answers: the tests validate what the routes send (tests/app/routes), and
`python -m app.routes.schema` makes the types of the page's scripts (app/static/answers.d.ts). Every answer that is JSON
also has `ok`: true, or false with `error`, a sentence (app/routes/errors.py); the models leave both out.
"""

from __future__ import annotations

from typing import Any

from app.routes._answers import (
    accounts,
    cases,
    clusters,
    exports,
    learn,
    manage,
    medmix,
    points,
    reading,
    report,
    results,
    reviews,
    runs,
    status,
    studies,
    training,
)

_MODULES = (
    status, studies, exports, manage, accounts, medmix, runs, training, reviews, cases, reading, results, report,
    clusters, points, learn,
)  # fmt: skip

# "METHOD path": the model of the answer
ANSWERS: dict[str, Any] = {route: model for module in _MODULES for route, model in module.ANSWERS.items()}
# "METHOD path": media types of what is no JSON
BINARY: dict[str, tuple[str, ...]] = {route: types for module in _MODULES for route, types in module.BINARY.items()}
# of those, the ones that begin with a length and a head in JSON, with the head's model
HEADS: dict[str, Any] = cases.HEADS | medmix.HEADS
