"""Segmentation of a lesion from a few clicks (encoder features and edges) or from a bounding box (LiteMedSAM)."""
