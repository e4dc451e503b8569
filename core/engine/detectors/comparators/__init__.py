"""Detectors that the paper compares PMSACL with, one a file; `learnt.py` is what they share."""
