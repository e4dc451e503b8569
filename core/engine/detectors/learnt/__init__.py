"""A detector that learns from readers' marks: `teaching.py` has the network and its lessons."""
