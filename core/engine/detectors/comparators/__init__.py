"""Detectors that the paper compares PMSACL with, one per file; `nets.py` is what they share."""
