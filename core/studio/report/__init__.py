"""Reproduces the paper's tables on a study: executes missing runs and compares with the published numbers."""
