"""Export of detectors as ONNX graphs, which run without torch."""
