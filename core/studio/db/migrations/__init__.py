"""Every table of the database: one file per step, applied in the order of their numbers, each once."""
