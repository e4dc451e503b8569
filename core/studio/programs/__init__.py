"""Programming interface of the studio: everything in the package `pmsacl_studio` outside the engine."""
