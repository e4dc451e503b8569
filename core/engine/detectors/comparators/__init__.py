"""Detectors with which the paper compares PMSACL. `nets.py` contains the code that they share."""
