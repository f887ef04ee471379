"""Where a cluster is controlled: "HOST:PORT", or a port of this machine alone."""

from __future__ import annotations

import ipaddress

from ottla.errors import UserMistake

LOOPBACK = "127.0.0.1"
_PORT_MAX = 65_535


def parse_address(text: str, option: str, *, least_port: int = 1) -> tuple[str, int]:
    """(host, port) of PORT, HOST:PORT, [IPV6]:PORT or http://HOST:PORT; UserMistake names the `option`."""
    address = text.strip().removeprefix("http://").rstrip("/")
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else LOOPBACK
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and least_port <= int(port) <= _PORT_MAX
    is_host = bool(host) and host.isprintable() and not set(host) & set(" /@?#[]")
    # Without brackets it is not clear where an IPv6 address ends and the port begins.
    is_bracketed = ":" not in host or address.startswith("[")
    if not (is_port and is_host and is_bracketed):
        raise UserMistake(f"{option} {text} is not HOST:PORT or PORT, such as 127.0.0.1:9190")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_domain(host_header: str) -> bool:
    """Whether a page of the web may be there: a name with a dot, with or without a port, that is no IPv4 address."""
    name = host_header.partition(":")[0].strip(".")
    return "." in name and not all(part.isdecimal() for part in name.split("."))
