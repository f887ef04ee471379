"""A proxy between any clients and any Kafka: addresses rewritten, requests decoded, faults fired.

`passage.py` decides for one connection, without sockets or clocks; `relay.py` and `server.py` carry that out over
sockets; `proxy.py` is the API for Python.
"""
