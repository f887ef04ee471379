"""What of frames.py is C when it is compiled: classes as structs, methods as functions (see setup.py)."""

cimport cython

from ottla.protocol.primitives cimport Decoder, Encoder


@cython.final
cdef class FrameBuffer:
    cdef public object max_frame_bytes
    cdef public bytearray _stage
    cdef public bytes _rest
    cdef public bytearray _frame
    cdef public Py_ssize_t _frame_bytes
    cdef public Py_ssize_t _filled
    cdef public Py_ssize_t _trust_bytes
    cdef public object broken

    cpdef get_buffer(self)
    cpdef list advance(self, Py_ssize_t size)
    @cython.locals(begin=Py_ssize_t)
    cdef list _cut_stage(self, Py_ssize_t end)
    cdef _begin_frame(self, Py_ssize_t length, Py_ssize_t begin, Py_ssize_t end)


@cython.locals(encoder=Encoder)
cpdef list encode_request(correlation_id, client_id, message, version)
@cython.locals(encoder=Encoder)
cpdef list encode_response(correlation_id, message, version)
@cython.locals(decoder=Decoder)
cpdef tuple decode_response(frame, request_class, version)
cdef _check_version(message, version)
cdef list _frame(Encoder encoder, message, version)
cdef _message(message_class, Decoder decoder, version, lenient=*)
