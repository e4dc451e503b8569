"""A lesion's region from a few clicks, by an encoder's features and the image's edges."""
