"""Demo study and its guided tour."""

STUDY = "demo"
