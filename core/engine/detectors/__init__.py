"""Detectors: fitted on normal images, each gives an image a score and a heat map. One per file or folder.

reference   PaDiM and IGD as printed (Eqs. 10, 12, 13), one position at a time: read this first
padim       PaDiM on `gaussian`'s distributions; igd: IGD; base: the base class of every detector
"""
