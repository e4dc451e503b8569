"""Segments a lesion from a few clicks (by an encoder's features and the image's edges) or from a box (LiteMedSAM)."""
