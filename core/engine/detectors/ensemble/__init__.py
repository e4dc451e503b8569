"""Several detectors combined into one: `ensemble.py` is the detector, `named.py` has named configurations."""
