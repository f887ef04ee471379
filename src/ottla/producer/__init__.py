"""The producer's core: what is decided about each batch; sockets and clocks are its driver's."""
