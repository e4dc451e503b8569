"""The demo study: endoscopy-like frames drawn by our own code from a seed, with lesions whose masks are exact."""

from core.engine.phantom.frame import Case, draw_case, draw_study

__all__ = ["Case", "draw_case", "draw_study"]
