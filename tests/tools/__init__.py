"""Verbs of `launch.py` for developers, in a clone of the source and not in the installed package."""

from __future__ import annotations

VERBS = ("tests.tools.verbs", "tests.benches.experiments.verbs")  # `test` and `bench`; `experiment` and `choose`


def main(argv: list[str]) -> int:
    """Runs a verb of the studio or one of these; returns the exit status."""
    from app.commands import main as studio

    return studio(argv, VERBS)
