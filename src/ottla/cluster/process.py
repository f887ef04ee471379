"""The process in which the brokers of a `Cluster` run: `python -m ottla.cluster.process FD PARENT_PID`.

FD is the inherited end of the control channel; all commands come through it. The process ends on the command `stop`, on
SIGTERM, and when the program that started it has ended: then the channel is closed, or, if a fork of that program keeps
the channel open, the parent's process id changes. The logs are always closed in order. SIGINT is ignored: Ctrl+C in a
terminal is for the program in the foreground, which then closes its cluster.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    # Imports make no garbage; collections meanwhile would take a tenth of the start.
    gc.disable()

import logging
import os
import signal
import socket
import sys

from ottla.cluster.commands import Commands
from ottla.sockets.control import ControlServer
from ottla.sockets.event_loop import EventLoop

_PARENT_CHECK_S = 1.0
_DESCRIPTORS_WANTED = 65_536


class _ForwardingHandler(logging.Handler):
    """Sends log records to the program that made the cluster."""

    def __init__(self, control: ControlServer) -> None:
        super().__init__()
        self._control = control

    def emit(self, record: logging.LogRecord) -> None:
        self._control.log(record.name, record.levelno, self.format(record))


def run_brokers(sock: socket.socket, parent_pid: int | None = None) -> None:
    """Carry out the commands of the control channel until the cluster is stopped or the other end is closed.

    With `parent_pid` this is a process of its own that belongs to that parent, otherwise a thread of the program.
    """
    loop = EventLoop()
    commands = Commands(loop, loop.stop)
    control = ControlServer(loop, sock, commands.handle, commands.stop)
    if parent_pid is not None:
        _behave_as_child(loop, commands, control, parent_pid)
    try:
        loop.run_forever()
    finally:
        control.close()
        loop.close()


def _behave_as_child(loop: EventLoop, commands: Commands, control: ControlServer, parent_pid: int) -> None:
    def check_parent() -> None:
        if os.getppid() != parent_pid:
            commands.stop()
        else:
            loop.call_after(_PARENT_CHECK_S, check_parent)

    check_parent()
    loop.add_signal_handler(signal.SIGTERM, commands.stop)
    root = logging.getLogger()
    root.addHandler(_ForwardingHandler(control))
    root.setLevel(logging.INFO)


def main(arguments: list[str]) -> None:
    """Entry of the child process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _allow_many_files()
    # All objects made so far live as long as the process; the garbage collector can leave them out.
    gc.freeze()
    gc.enable()
    descriptor, parent_pid = map(int, arguments)
    run_brokers(socket.socket(fileno=descriptor), parent_pid)


def _allow_many_files() -> None:
    """Raise the limit of file descriptors, up to the hard limit: every segment and every client takes one."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_WANTED)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    main(sys.argv[1:])
