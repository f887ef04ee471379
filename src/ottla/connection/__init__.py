"""The client's side of connections: handshake, versions, reconnecting, timeouts and cluster metadata."""
