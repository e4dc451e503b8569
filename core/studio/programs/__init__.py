"""The studio for people's own programs: what `pmsacl_studio` gives besides the engine's parts."""
