"""Serving sockets: the event loop, ports that are listened on, listeners as a user describes them, TLS of servers.

Nothing here knows what is served: brokers do (`cluster`).
"""
