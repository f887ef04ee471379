"""Groups of both protocols (classic, KIP-848) and their committed offsets; loaded when the first one is asked for."""
