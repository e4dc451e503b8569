"""Several detectors as one: `ensemble.py` is the detector, `named.py` the configurations of it that have a name."""
