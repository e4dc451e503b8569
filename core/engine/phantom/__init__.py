"""Synthetic endoscopy frames for the demo study, rendered from a seed, with lesions and exact lesion masks."""
