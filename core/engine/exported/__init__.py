"""Export of detectors for use elsewhere: as one ONNX graph each, and the script that runs it without torch."""
