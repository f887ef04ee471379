"""Sockets of servers: the event loop, listening ports, `Listener`, TLS, and the control channel to a server process.

Nothing here depends on what is served: `cluster` has the brokers, `proxy` and `embedded_registry` other servers.
"""
