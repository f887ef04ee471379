"""Measurements against the peers: every figure is a ratio of runs made side by side, in turn, on one machine."""
