"""Ways out of the review room. Each writes into a folder or a file and is an event of the audit trail."""
