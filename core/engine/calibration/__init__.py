"""What scores and heat maps mean beside held-out normal images; below detectors and metrics, which both take it."""
