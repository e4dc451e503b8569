"""A detector that learns from readers' annotations; `teaching.py` has the network and its training."""
