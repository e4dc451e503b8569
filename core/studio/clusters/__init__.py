"""Clusters: maps of the feature space, epoch by epoch, and the numbers that keep them honest."""
