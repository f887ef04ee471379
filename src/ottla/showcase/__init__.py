"""`ottla run`: an input goes three times through a cluster with faults, and the judges say which guarantees held."""
