"""Reproduces the paper's tables on a study: executes missing runs, and compares results with the published numbers."""
