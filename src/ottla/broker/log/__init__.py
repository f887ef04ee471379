"""A partition's log on disk: segments, indexes, producer state, leader epochs, and the files they are kept in."""
