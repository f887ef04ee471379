"""What the compiled modules see of an awaitable whose result is there already, or comes with a future."""

cimport cython


@cython.final
cdef class Awaitable:
    cdef object _value
    cdef object _steps  # the iterator of a future to wait for; None: there is none, or it is over
    cdef bint _asks  # `_value` is a Delivery, whose result is the value


cdef Awaitable at_once(object value)
cdef Awaitable with_future(object delivery, object steps)
cdef object future_here()
