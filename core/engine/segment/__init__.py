"""Segmentation of a lesion from a few clicks (by encoder features and edges) or a bounding box (by LiteMedSAM)."""
