"""Addresses as people and settings write them: host:port, with the brackets an IPv6 address needs."""

from __future__ import annotations

from collections.abc import Iterable


def address_of(host: str, port: int) -> str:
    """ "127.0.0.1:9092", "[::1]:9092"."""
    return f"{bracketed(host)}:{port}"


def addresses_of(addresses: Iterable[tuple[str, int]]) -> str:
    """Many in one text, as in `bootstrap.servers`: "host:port,host:port"."""
    return ",".join(address_of(host, port) for host, port in addresses)


def bracketed(host: str) -> str:
    """A host as it stands in front of a port: "localhost", "[::1]"."""
    return f"[{host}]" if ":" in host else host
