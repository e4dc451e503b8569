"""MedMix, the paper's strong augmentation (Sec. MedMix).

reference   what it does, one image at a time: read this first
medmix      the same for a minibatch: all is drawn (draws), then painted, lesions of similar size together (groups)
"""
