"""What the appender calls for parts of a record that are not plain bytes."""

from libc.stdint cimport int32_t, int64_t

cpdef object checked_topic(object topic)
cpdef object text_or_bytes(str what, object given)
cdef const char *data_of(object given, Py_ssize_t *size) except? NULL
cdef object checked_callback(object on_delivery)
cdef int64_t checked_timestamp(object timestamp_ms) except? -1
cdef int32_t checked_partition(object topic, object partition, int32_t count) except? -1
cdef object whole_number(object topic, object partition, int32_t count)
cpdef list header_pairs(object headers)
cdef bytes encode_headers(object headers)
