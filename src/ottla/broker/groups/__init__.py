"""Consumer groups of the classic protocol and their committed offsets; loaded when the first group is asked for."""
