"""Detectors that the paper compares PMSACL with; `nets.py` holds the code that they share."""
