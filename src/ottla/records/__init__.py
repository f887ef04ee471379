"""Records <-> record batch bytes: the hot loops, compiled, and the same in plain Python (`plain.py`).

Nothing is imported here, so that each user imports only what it needs.
"""
