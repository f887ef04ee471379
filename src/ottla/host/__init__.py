"""What the brokers of one cluster do to each other, and what is done to them: the same for sockets and simulation."""
