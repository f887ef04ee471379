"""TCP segments out of packets: Ethernet with VLANs, Linux's cooked captures, loopback and raw IP; IPv4 and IPv6.

`segment_in` never raises: what is no TCP, or too damaged to tell, is None. Packets are cut to what their IP header
says, which drops the padding of short Ethernet frames; `missing_bytes` tells how much was not captured of longer ones.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from struct import error, unpack_from
from typing import NamedTuple

from ottla.tap.pcap import Packet

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

_NULL, _ETHERNET, _LOOP, _COOKED, _COOKED_2 = 0, 1, 108, 113, 276
# DLT_RAW has three numbers, the last two of which are what some systems write.
_RAW = (101, 12, 14, 228, 229)
LINK_TYPES = (_NULL, _ETHERNET, _LOOP, _COOKED, _COOKED_2, *_RAW)
_ETHERNET_BYTES, _COOKED_BYTES, _COOKED_2_BYTES = 14, 16, 20
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLANS = (0x8100, 0x88A8, 0x9100)
# AF_INET everywhere; AF_INET6 of Linux, NetBSD, FreeBSD and macOS.
_FAMILIES = {2: _IPV4, 10: _IPV6, 24: _IPV6, 28: _IPV6, 30: _IPV6}
_TCP = 6
# Extension headers of IPv6 that say their length in units of 8 bytes; AH counts in fours, a fragment's has 8 bytes.
_EXTENSIONS = (0, 43, 60, 135, 139, 140)
_AUTHENTICATION, _FRAGMENT = 51, 44
_MORE_FRAGMENTS_AND_OFFSET = 0x3FFF


class Segment(NamedTuple):
    """A TCP segment: `source` and `target` as `host:port`, and what was captured of its payload."""

    source: str
    target: str
    source_port: int
    target_port: int
    sequence: int
    acknowledged: int
    flags: int
    payload: memoryview
    missing_bytes: int


def segment_in(packet: Packet) -> Segment | None:
    """The TCP segment of a packet; None where there is none."""
    data = memoryview(packet.data)
    try:
        kind, begin = _link(packet.link_type, data)
        if kind == _IPV4:
            return _ipv4(data[begin:])
        return _ipv6(data[begin:]) if kind == _IPV6 else None
    except (error, IndexError, ValueError):
        return None


def _link(link_type: int, data: memoryview) -> tuple[int, int]:
    """What the link carries, and where that begins."""
    if link_type == _ETHERNET:
        return _without_vlans(data, unpack_from(">H", data, 12)[0], _ETHERNET_BYTES)
    if link_type == _COOKED:
        return _without_vlans(data, unpack_from(">H", data, 14)[0], _COOKED_BYTES)
    if link_type == _COOKED_2:
        return _without_vlans(data, unpack_from(">H", data, 0)[0], _COOKED_2_BYTES)
    if link_type in (_NULL, _LOOP):
        # In the byte order of the machine that captured, whichever that was.
        family = min(unpack_from(">I", data)[0], unpack_from("<I", data)[0])
        return _FAMILIES.get(family, 0), 4
    if link_type in _RAW:
        return {4: _IPV4, 6: _IPV6}.get(data[0] >> 4, 0), 0
    return 0, 0


def _without_vlans(data: memoryview, kind: int, begin: int) -> tuple[int, int]:
    while kind in _VLANS:
        (kind,) = unpack_from(">H", data, begin + 2)
        begin += 4
    return kind, begin


def _ipv4(data: memoryview) -> Segment | None:
    header_bytes = (data[0] & 0x0F) * 4
    (total,) = unpack_from(">H", data, 2)
    (fragment,) = unpack_from(">H", data, 6)
    if data[9] != _TCP or fragment & _MORE_FRAGMENTS_AND_OFFSET or header_bytes < 20:
        return None
    # 0 where the network card was to cut the packet up: it is as long as it was captured.
    size = (total or len(data)) - header_bytes
    return _tcp(_address(bytes(data[12:16])), _address(bytes(data[16:20])), data[header_bytes:], size)


def _ipv6(data: memoryview) -> Segment | None:
    (payload_bytes,) = unpack_from(">H", data, 4)
    kind, begin = data[6], 40
    size = payload_bytes or len(data) - 40
    while kind != _TCP:
        if kind in _EXTENSIONS:
            length = (data[begin + 1] + 1) * 8
        elif kind == _AUTHENTICATION:
            length = (data[begin + 1] + 2) * 4
        elif kind == _FRAGMENT and not unpack_from(">H", data, begin + 2)[0] & 0xFFF9:
            length = 8
        else:
            return None
        kind = data[begin]
        begin += length
        size -= length
    return _tcp(_address(bytes(data[8:24])), _address(bytes(data[24:40])), data[begin:], size)


@lru_cache(maxsize=4096)
def _address(raw: bytes) -> str:
    """An address as it stands in front of a port; a recording has few of them, each many times."""
    return str(IPv4Address(raw)) if len(raw) == 4 else f"[{IPv6Address(raw)}]"


def _tcp(source: str, target: str, data: memoryview, size: int) -> Segment | None:
    source_port, target_port, sequence, acknowledged, offset, flags = unpack_from(">HHIIBB", data)
    header_bytes = (offset >> 4) * 4
    if header_bytes < 20 or size < header_bytes:
        return None
    payload = data[header_bytes:size]
    return Segment(
        f"{source}:{source_port}",
        f"{target}:{target_port}",
        source_port,
        target_port,
        sequence,
        acknowledged,
        flags,
        payload,
        size - header_bytes - len(payload),
    )
