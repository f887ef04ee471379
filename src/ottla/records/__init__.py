"""Records <-> record batch bytes: the hot loops, compiled, and their plain-Python twin.

Nothing is imported here: a broker needs only `batch_header`, a producer only `append`.
"""
