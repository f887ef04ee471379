"""What of links.py is C when it is compiled (see setup.py)."""

cimport cython


@cython.final
cdef class Node:
    cdef public object armed_us
    cdef public object broker_id
    cdef public dict clients
    cdef public object core
    cdef public object frozen
    cdef public object held
    cdef public bint is_gone


cdef class Links:
    cdef public dict _brokers
    cdef public object _controller
    cdef public object _loop
    cdef public object _numbers
    cdef public dict _orders
    cdef public dict _questions
    cdef public object _queue
    cdef public bint _running
    cdef public object _timer
    cdef public object _timer_us
    cdef public object image
    cdef public object image_published
    cdef public object let_go
    cdef public object struck
    cdef public object troubles

    cpdef receive(self, Node node, event)
    cpdef post(self, action, first, second)
    cpdef carry_out(self, Node node)
    cdef _are_parted(self, broker_id, other_id)
    cdef _run(self)
    @cython.locals(node=Node)
    cdef _perform_one(self, Node node, output)
    cdef _respond(self, Node node, response)
    cdef _hang_up(self, Node node, output)
    cdef _ask_peer(self, Node node, question)
    @cython.locals(node=Node)
    cdef _answer_peer(self, connection_id, message)
    cdef list _nodes(self)
    @cython.locals(node=Node)
    cdef _arm(self)
