"""Figures for the report: detection, localisation, PRO, intervals, and one row of them all."""

from core.engine.metrics.evaluate import CannotEvaluate, evaluate

__all__ = ["CannotEvaluate", "evaluate"]
