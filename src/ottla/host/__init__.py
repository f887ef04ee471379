"""The brokers of one cluster and their controller, and the faults of them: the same code for sockets and simulation."""
