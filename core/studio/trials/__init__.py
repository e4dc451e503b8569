"""Multi-reader multi-case (MRMC) trials of reading with and without AI assistance: plans, analysis and report."""
