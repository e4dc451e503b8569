"""The meaning of scores and heat maps beside held-out normal images; detectors and metrics both build on it."""
