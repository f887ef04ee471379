"""Groups of both protocols (classic, KIP-848) and their committed offsets; imported with the first request for one."""
