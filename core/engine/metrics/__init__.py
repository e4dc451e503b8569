"""Metrics of the report: detection, localisation, PRO (per-region overlap) and their confidence intervals.

Nothing is imported here, so that the web server can find nearest neighbours (`vectors`) without loading torch.
"""
