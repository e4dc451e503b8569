"""Segmentation of a lesion from a few clicks (with features of an encoder and edges) or from a box (LiteMedSAM)."""
