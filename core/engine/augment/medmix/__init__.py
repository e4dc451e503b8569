"""MedMix, the paper's strong augmentation (Sec. MedMix).

reference   MedMix for one image and one lesion at a time: read this first medmix      the same for a minibatch: draws
all numbers (draws), then paints lesions of similar size together (groups)
"""
