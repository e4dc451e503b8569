"""A fitted detector that learns further from images in which readers marked what is abnormal."""
