"""Several detectors combined into one. `ensemble.py` contains the detector, `named.py` the named configurations."""
