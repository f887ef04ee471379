"""`ottla run`: an input goes three times through a cluster that answers badly, and the judges say what was kept."""
