"""Thresholds, percentiles and scales of anomaly scores and heat maps, computed on held-out normal images."""
