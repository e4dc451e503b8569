"""Losses, each a function of features.

reference    the losses of PMSACL as printed (Eqs. 3 to 9), one sample at a time: start here
pmsacl       the same losses for a minibatch, l_PMSACL also as a module, and contrastive losses of other papers
centred      the centred features that l_PMSACL compares
ms_ssim      the structural similarity by which IGD compares reconstructions with images
"""
