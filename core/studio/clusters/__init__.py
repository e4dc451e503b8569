"""Clusters: maps of the feature space, epoch by epoch, and the metrics that say how far they can be trusted."""
