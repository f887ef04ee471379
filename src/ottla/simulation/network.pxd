"""What of network.py is C when it is compiled (see setup.py)."""

cimport cython

from ottla.host.crossing cimport Crossing
from ottla.simulation.scheduler cimport Scheduler


@cython.final
cdef class Link:
    cdef public object number
    cdef public object connection_id
    cdef public object client_name
    cdef public object server_name
    cdef public object owner
    cdef public object port
    cdef public object client
    cdef public object server
    cdef public bint is_open
    cdef public bint is_deaf
    cdef public object held
    cdef public object to_broker_us
    cdef public object to_client_us
    cdef public dict asked


cdef class Network


@cython.final
cdef class SimulatedConnections:
    cdef public Network _network
    cdef public object _port

    cpdef respond(self, response)


@cython.final
cdef class Network:
    cdef public Scheduler _scheduler
    cdef public object _rng
    cdef public object _randrange
    cdef public object crossed
    cdef public bint _through_bytes
    cdef public dict _brokers
    cdef public dict _by_client
    cdef public dict _by_number
    cdef public list _silences
    cdef public list _awaited
    cdef public object _numbers
    cdef public dict owners
    cdef public list stalls
    cdef public object tap

    cpdef delay_us(self)
    @cython.locals(link=Link)
    cdef _transmit(self, client_number, client, output)
    cdef _end(self, Link link)
    cdef _to_broker(self, Link link, event)
    cdef _to_client(self, Link link, event)


cdef _twin(message)
