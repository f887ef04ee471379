"""What the compiled modules see of an awaitable whose result is there already, or comes with a future."""

cimport cython


@cython.final
cdef class Awaitable:
    cdef object _value
    cdef object _steps  # the iterator of the future that is waited for; None: the value is there
    cdef bint _asks  # the value is a Delivery whose result is what is awaited


cdef Awaitable at_once(object value)
cdef Awaitable with_future(object delivery, object steps)
cdef object future_here()
