"""The process in which an embedded registry runs: `python -m ottla.embedded_registry.process FD PARENT_PID`.

FD is the inherited end of the control channel, which tells everything else. It ends when it is told to, on SIGTERM, and
when the program that started it is gone. SIGINT is ignored: Ctrl+C in a terminal is for the program in the foreground.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys

from ottla.embedded_registry.server import RegistryServer
from ottla.sockets.control import ControlServer
from ottla.sockets.event_loop import EventLoop

_PARENT_CHECK_S = 1.0


class _ForwardingHandler(logging.Handler):
    """Sends what is logged here to the program that holds the registry, from any thread."""

    def __init__(self, server: RegistryServer, control: ControlServer) -> None:
        super().__init__()
        self._server, self._control = server, control

    def emit(self, record: logging.LogRecord) -> None:
        self._server.later(self._control.log, record.name, record.levelno, self.format(record))


def run_registry(sock: socket.socket, parent_pid: int | None = None) -> None:
    """Serve the control channel until the other end is gone.

    With `parent_pid` this is a process of its own that belongs to that parent, otherwise a thread of the program.
    """
    loop = EventLoop()
    server = RegistryServer(loop, loop.stop)
    control = ControlServer(loop, sock, server.handle, server.stop)
    if parent_pid is not None:
        _behave_as_child(loop, server, control, parent_pid)
    try:
        loop.run_forever()
    finally:
        control.close()
        server.close()
        loop.close()


def _behave_as_child(loop: EventLoop, server: RegistryServer, control: ControlServer, parent_pid: int) -> None:
    def check_parent() -> None:
        if os.getppid() != parent_pid:
            server.stop()
        else:
            loop.call_later(_PARENT_CHECK_S, check_parent)

    check_parent()
    loop.add_signal_handler(signal.SIGTERM, server.stop)
    root = logging.getLogger()
    root.addHandler(_ForwardingHandler(server, control))
    root.setLevel(logging.INFO)


def main(arguments: list[str]) -> None:
    """Entry of the child process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    descriptor, parent_pid = map(int, arguments)
    run_registry(socket.socket(fileno=descriptor), parent_pid)


if __name__ == "__main__":
    main(sys.argv[1:])
