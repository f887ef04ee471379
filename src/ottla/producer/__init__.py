"""A producer's decisions, in the order a batch meets them; sockets and clocks are its driver's."""
