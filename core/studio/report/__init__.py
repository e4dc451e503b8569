"""The paper's tables on a study: what is missing is run, then written beside the published numbers."""
