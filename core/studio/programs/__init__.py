"""The studio for use in programs: what the package `pmsacl_studio` offers besides the engine."""
