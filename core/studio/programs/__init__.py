"""The studio for people's own programs: what `pmsacl_studio` gives beside the engine's parts."""
