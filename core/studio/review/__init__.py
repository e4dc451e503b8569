"""What people say about cases: worklist, decisions, mask versions, blind reading, agreement, audit, exports."""
