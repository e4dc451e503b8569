"""Demo study, and the guided tour of that study."""

STUDY = "demo"
