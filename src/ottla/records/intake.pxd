"""What the encoders of other rooms are, for `Serialization` to call."""


cdef class RowEncoder:
    cdef bytes encode(self, object value, bytes prefix)
