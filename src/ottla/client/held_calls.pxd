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

cdef extern from *:
    """
    #ifdef __linux__
    #include <sys/epoll.h>
    static int ottla_epoll_change(int epoll_fd, int fd, unsigned int mask) {
        struct epoll_event event;
        event.events = mask;
        event.data.u64 = 0;
        event.data.fd = fd;
        return epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event);
    }
    #else
    static int ottla_epoll_change(int epoll_fd, int fd, unsigned int mask) {
        return -1;
    }
    #endif
    """
    int epoll_change "ottla_epoll_change" (int epoll_fd, int fd, unsigned int mask)
