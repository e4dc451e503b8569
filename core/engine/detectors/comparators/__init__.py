"""Detectors with which the paper compares PMSACL. `nets.py` contains their shared code."""
