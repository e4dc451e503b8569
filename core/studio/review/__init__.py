"""The reading of cases: worklist, decisions, lesion masks, blind reading, agreement, erasure, exports."""
