"""The reading room: worklist, decisions, lesion masks, blind reading, agreement, erasure and exports."""
