"""The paper's tables on a study: missing runs are made, and results are written next to the published numbers."""
