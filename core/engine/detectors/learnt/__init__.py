"""A detector that learns from readers' annotations. `teaching.py` contains the network and its training."""
