"""The types of what the page sends, made from the models of the routes' bodies."""

from __future__ import annotations

import pytest

from app.context import Context
from app.routes import _bodies as bodies
from app.routes import schema
from core.studio.db.home import Home


@pytest.fixture
def ctx(tmp_path):
    made = Context(home=Home.at(tmp_path / "home"))
    yield made
    made.store().close()


def test_each_model_belongs_to_a_route(ctx):
    used = set(schema.body_of_routes(ctx).values())
    unused = [model for model in schema.models() if model not in used]
    assert all(any(issubclass(one, model) for one in used) for model in unused), "a model is used, or a base of one"


def test_types_of_a_body():
    text = schema.interface(bodies.Decision)
    assert "  case: number;" in text and '  decision: "normal" | "abnormal" | "unsure";' in text
    assert "  seconds?: number | null;" in text and "  list?: Record<string, unknown> | null;" in text
    assert "  readers: Array<string>;" in schema.interface(bodies.Assign)
    assert "  detectors: Record<string, Record<string, unknown>>;" in schema.interface(bodies.Fit)
    assert "  from?: number | null;" in schema.interface(bodies.Threshold), "by the name that the page sends"


def test_the_page_of_types_names_each_route(ctx):
    page = schema.page(ctx)
    assert "  'POST /api/review/decide': Decision;" in page and "export interface Decision {" in page
    assert page.count("export interface ") == len(schema.models()) + 1
