"""Losses, each a function of features.

reference    PMSACL's as printed (Eqs. 3 to 9), one sample at a time: read this first
pmsacl       the same for a minibatch; centred: the features that l_PMSACL compares; module: with its centres in it
contrastive  those of other papers; ms_ssim: structural similarity, which IGD reconstructs by
"""
