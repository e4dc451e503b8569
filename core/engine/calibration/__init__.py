"""Thresholds, percentiles and scales of scores and heat maps, from held-out normal images."""
