"""The C library's calls behind held_calls.py."""

cdef extern from "<unistd.h>":
    ssize_t write(int fd, const void* data, size_t size)

cdef extern from "<sys/socket.h>":
    ssize_t send(int fd, const void* data, size_t size, int flags)
    ssize_t recv(int fd, void* room, size_t size, int flags)

cdef extern from "<poll.h>":
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd* fds, unsigned long count, int timeout_ms) nogil
    short POLLIN
