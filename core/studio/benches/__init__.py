"""Measurements of the middle floor: one module each, with `run(quick=False) -> dict`."""
