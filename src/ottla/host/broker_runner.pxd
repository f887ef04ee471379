"""What of broker_runner.py is C when it is compiled (see setup.py)."""

from ottla.host.links cimport Links
from ottla.host.runner cimport Runner


cdef class BrokerRunner(Runner):
    cdef public object broker_id
    cdef public object client_connections
    cdef public Links _links
    cdef public object _ended
    cdef public list slow_disks
    cdef public object takes_us
    cdef public dict _stations

    cpdef arrive(self, event)
    cpdef late_us(self, event)
    cdef _respond(self, response)


cdef class ControllerRunner(Runner):
    cdef public Links _links
