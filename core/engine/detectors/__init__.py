"""Detectors: fitted on normal images, each gives an image a score and a heat map. One a file, or a folder.

reference   PaDiM and IGD as printed (Eqs. 10, 12, 13), one position at a time: read this first
padim       the former on `gaussian`'s distributions; igd: the latter; base: what every detector is
"""
