"""Reader trials: several readers, several cases, with the machine and without; plans, their analysis and report."""
