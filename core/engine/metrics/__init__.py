"""Figures for the report: detection, localisation, PRO, intervals, and one row of them all.

Nothing is imported here, so that the page finds neighbours (`vectors`) without loading torch.
"""
