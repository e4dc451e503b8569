"""Programming interface of the studio: the part of the package `pmsacl_studio` beyond the engine."""
