"""Detectors, one per file or folder. They are fitted on normal images and give each image a score and a heat map.

reference   PaDiM and IGD as printed (Eqs. 10, 12, 13), one position at a time: start here
base        the base class of all detectors; PaDiM is in `padim` and `gaussian`, IGD in the folder `igd`
"""
