"""What the compiled modules ask of a function, and how its flags are read."""


cdef extern from *:
    """
    #define ottla_code_flags(f) (((PyCodeObject *)PyFunction_GET_CODE(f))->co_flags)
    """
    int CO_COROUTINE
    int CO_ASYNC_GENERATOR
    # Of a function written in Python, and of nothing else.
    int code_flags "ottla_code_flags"(object)


cpdef bint is_async(object function) except? -1
