"""What of value.py is C when it is compiled (see setup.py)."""


cdef class Value:
    pass
