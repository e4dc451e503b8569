"""Figures of the report: detection, localisation, PRO and their intervals.

Nothing is imported here, so that the page can search for neighbours (`vectors`) without loading torch.
"""
