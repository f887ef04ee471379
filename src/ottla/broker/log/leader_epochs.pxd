"""What of leader_epochs.py is C when it is compiled (see setup.py)."""


cdef class LeaderEpochs:
    cdef public list _epochs
    cdef public list _starts

    cpdef note(self, epoch, start_offset)
