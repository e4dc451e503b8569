"""Losses of the pre-training and of the detector IGD.

reference    the losses of PMSACL as printed (Eqs. 3 to 9), one sample at a time: start here
pmsacl       the same losses for a minibatch, l_PMSACL also as a module, and contrastive losses of other papers
centred      the features centred by class that l_PMSACL compares
ms_ssim      the structural similarity with which IGD compares reconstructions and images
"""
