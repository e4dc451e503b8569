"""Multi-reader multi-case trials with and without AI assistance: plans, analysis and report."""
