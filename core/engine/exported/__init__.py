"""Detectors outside the house: as one ONNX graph each, and the script that runs it without torch."""
