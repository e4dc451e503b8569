"""The demo study and the tour that runs on it."""

STUDY = "demo"
