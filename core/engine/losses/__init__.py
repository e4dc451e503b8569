"""Losses, each a function of features.

reference    PMSACL's as printed (Eqs. 3 to 9), one sample at a time: read this first
pmsacl       the same for a minibatch, l_PMSACL also as a module; centred: the features that it compares
contrastive  those of other papers; ms_ssim: structural similarity, which IGD reconstructs by
"""
