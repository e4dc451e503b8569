"""Clusters: maps of the feature space by epoch, and metrics of their reliability."""
