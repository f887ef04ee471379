"""Names to socket addresses, without ever holding up the I/O thread.

Numeric addresses and localhost are answered at once; everything else is looked up in a short-lived thread, because
the C library's resolver blocks for as long as the name servers please.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

Address = tuple[int, tuple[object, ...]]

UNRESOLVABLE = "the name cannot be resolved"


def resolve(host: str, port: int, done: Callable[[list[Address], str], None]) -> None:
    """Call `done(addresses, reason)`, here and now or later from another thread; `reason` says why there are none."""
    flags = 0 if host == "localhost" else socket.AI_NUMERICHOST
    try:
        done(_look_up(host, port, flags), "")
        return
    except OSError:
        pass
    threading.Thread(target=_look_up_aside, args=(host, port, done), name=f"ottla-dns-{host}", daemon=True).start()


def _look_up(host: str, port: int, flags: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]


def _look_up_aside(host: str, port: int, done: Callable[[list[Address], str], None]) -> None:
    try:
        addresses = _look_up(host, port, 0)
    except socket.gaierror as error:
        passing = error.errno == socket.EAI_AGAIN
        done([], "no name server answered" if passing else UNRESOLVABLE)
    except (OSError, UnicodeError) as error:
        done([], f"{UNRESOLVABLE} ({error})")
    else:
        done(addresses, "")
