"""MedMix, the paper's strong augmentation (Sec. MedMix).

`reference` processes one image and one lesion at a time; read it first. `medmix` does the same for a minibatch: it
draws all random numbers (`draws`), then paints lesions of similar size together (`groups`).
"""
