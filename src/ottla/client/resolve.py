"""Names to socket addresses, without ever blocking the I/O thread (`client.dns.lookup`, KIP-302).

Numeric addresses and localhost are resolved at once; everything else is looked up in a short-lived thread, because the
C library's resolver blocks until a name server answers or it gives up. Only `expand_bootstrap` waits for it, on the
thread that makes a client, and only if `client.dns.lookup` asks for canonical names.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from ottla.connection.loss import Loss, LossKind, failed
from ottla.connection.settings import ConnectionSettings

Address = tuple[int, tuple[object, ...]]

UNRESOLVABLE = "the name cannot be resolved"


def resolve(host: str, port: int, done: Callable[[list[Address], Loss | None], None]) -> None:
    """Call `done(addresses, loss)`, here and now or later from another thread; `loss` says why there are none."""
    flags = 0 if host == "localhost" else socket.AI_NUMERICHOST
    try:
        found = _look_up(host, port, flags)
    except (OSError, UnicodeError):
        # UnicodeError: a part of the name is empty or too long, as in "a..b".
        pass
    else:
        done(found, None)
        return
    aside = threading.Thread(target=_look_up_aside, args=(host, port, done), name=f"ottla-dns-{host}", daemon=True)
    try:
        aside.start()
    except RuntimeError as error:
        # The process has as many threads as it may have. That may pass, and must not end the I/O thread.
        done([], failed(f"its name cannot be looked up ({error})"))


def _look_up(host: str, port: int, flags: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]


def _look_up_aside(host: str, port: int, done: Callable[[list[Address], Loss | None], None]) -> None:
    try:
        addresses = _look_up(host, port, 0)
    except socket.gaierror as error:
        passing = error.errno == socket.EAI_AGAIN
        done([], failed("no name server answered") if passing else Loss(LossKind.UNRESOLVABLE, UNRESOLVABLE))
    except (OSError, UnicodeError) as error:
        done([], Loss(LossKind.UNRESOLVABLE, f"{UNRESOLVABLE} ({error})"))
    else:
        done(addresses, None)


def expand_bootstrap(settings: ConnectionSettings) -> None:
    """Replace each bootstrap name by the canonical names of its addresses, if the settings say so (KIP-235).

    An address without a canonical name stays an address, as in Java. A name that cannot be resolved now stays as it is,
    and is tried like any other.
    """
    if settings.client_dns_lookup != "resolve_canonical_bootstrap_servers_only":
        return
    found: dict[tuple[str, int], None] = {}
    for host, port in settings.bootstrap_servers:
        try:
            addresses = _look_up(host, port, 0)
        except (OSError, UnicodeError):
            found[host, port] = None
            continue
        found.update(dict.fromkeys((_canonical_name(address), port) for _, address in addresses))
    settings.bootstrap_servers = tuple(found)


def _canonical_name(address: tuple[object, ...]) -> str:
    """The name of an address, if that name resolves to it; else the address as text."""
    text = str(address[0])
    try:
        name, _ = socket.getnameinfo(address, socket.NI_NAMEREQD)  # type: ignore[arg-type]
        known = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return text
    return name if any(found[4][0] == text for found in known) else text


def beginning_after(addresses: list[Address], stalled: Address | None) -> list[Address]:
    """The addresses of a name in the order in which to try them: one that did not answer last time comes last."""
    if stalled not in addresses:
        return addresses
    place = addresses.index(stalled) + 1
    return addresses[place:] + addresses[:place]
