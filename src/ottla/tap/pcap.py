"""Packets out of the files of tcpdump and Wireshark: pcap and pcapng, in both byte orders.

Written here rather than taken from a library: the large ones (scapy) bring hundreds of protocols, the small ones (dpkt,
python-pcapng) have had no release since 2022 and do not say where a file is damaged, and what is needed of the formats
is a page.

A file may be read while it grows: `packets` gives the whole packets there are, and may be asked again. Raises
UserMistake that says where the file is damaged. Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, error, unpack_from
from typing import NamedTuple

from ottla.errors import UserMistake
from ottla.tap.byte_source import ByteSource

# Magic number as it stands in the file -> byte order, and fractions of a second that its times count.
_PCAP_MAGICS = {
    b"\xa1\xb2\xc3\xd4": (">", 1_000_000),
    b"\xd4\xc3\xb2\xa1": ("<", 1_000_000),
    b"\xa1\xb2\x3c\x4d": (">", 1_000_000_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1_000_000_000),
}
PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
PCAP_MAGICS = frozenset(_PCAP_MAGICS)
_ORDERS = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
# No packet and no block about one is larger; a number beyond it is damage.
PACKET_BYTES_MAX = 16 << 20

_SECTION, _INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _ENHANCED_PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_END_OF_OPTIONS, _TIME_RESOLUTION, _TIME_OFFSET = 0, 9, 14
_BLOCK_BYTES_MIN = 12


class Packet(NamedTuple):
    """One packet as it was captured; `size_bytes` as it was on the network, `data` perhaps less."""

    time_us: int
    link_type: int
    data: bytes
    size_bytes: int


class CutOffPacket(NamedTuple):
    """The last packet is not whole: only `size_bytes` of it, which begins at byte `position`, are there."""

    position: int
    size_bytes: int


class PcapReader:
    """Packets of a pcap file; `name` is the file's in errors."""

    def __init__(self, source: ByteSource, name: str) -> None:
        self._source = source
        self._name = name
        self._order = ""
        self._fractions = 1
        self._link_type = 0
        self._packet = Struct("<IIII")
        # The header of a packet whose data has not all come yet.
        self._header: tuple[int, int, int, int] | None = None
        self._begin = 0

    @property
    def cut_off(self) -> CutOffPacket | None:
        """The last packet, where the file ends within it."""
        return _cut_off(self._source, self._begin, self._header is not None)

    def packets(self) -> Iterator[Packet]:
        """All packets that are whole and were not given yet."""
        if not self._order and not self._read_head():
            return
        while True:
            if self._header is None:
                self._begin = self._source.position
                data = self._source.take(self._packet.size)
                if data is None:
                    return
                self._header = self._packet.unpack(data)
            seconds, fraction, captured, size = self._header
            if captured > PACKET_BYTES_MAX:
                raise _damaged(self._name, self._begin, f"a packet of {captured:,} bytes")
            data = self._source.take(captured)
            if data is None:
                return
            self._header = None
            time_us = seconds * 1_000_000 + fraction * 1_000_000 // self._fractions
            yield Packet(time_us, self._link_type, data, max(size, captured))

    def _read_head(self) -> bool:
        head = self._source.take(24)
        if head is None:
            return False
        self._order, self._fractions = _PCAP_MAGICS[head[:4]]
        # The upper half may tell how long checksums behind packets are.
        self._link_type = unpack_from(f"{self._order}I", head, 20)[0] & 0xFFFF
        self._packet = Struct(f"{self._order}IIII")
        return True


class _Interface(NamedTuple):
    """What an interface block says of the packets that name it."""

    link_type: int
    snap_bytes: int
    ticks_a_second: int
    offset_s: int


class PcapngReader:
    """Packets of a pcapng file; `name` is the file's in errors. Blocks that are no packets are passed over."""

    def __init__(self, source: ByteSource, name: str) -> None:
        self._source = source
        self._name = name
        self._order = "<"
        self._interfaces: list[_Interface] = []
        self._begin = 0
        self._last_us = 0

    @property
    def cut_off(self) -> CutOffPacket | None:
        """The last block, where the file ends within it."""
        return _cut_off(self._source, self._source.position, False)

    def packets(self) -> Iterator[Packet]:
        """All packets that are whole and were not given yet."""
        while (block := self._block()) is not None:
            kind, body = block
            try:
                packet = self._read(kind, body)
            except (IndexError, ValueError, ArithmeticError, error) as cause:
                what = f"a block of type {kind} that cannot be read: {cause}"
                raise _damaged(self._name, self._begin, what) from None
            if packet is not None:
                self._last_us = packet.time_us
                yield packet

    def _block(self) -> tuple[int, bytes] | None:
        """The type and the body of the next whole block."""
        self._begin = self._source.position
        head = self._source.peek(12)
        if head is None:
            return None
        if head[:4] == PCAPNG_MAGIC:
            order = _ORDERS.get(head[8:12])
            if order is None:
                raise _damaged(self._name, self._begin, "a section without a byte order")
            self._order = order
            self._interfaces = []
        kind, size = unpack_from(f"{self._order}II", head)
        if not _BLOCK_BYTES_MIN <= size <= PACKET_BYTES_MAX or size % 4:
            raise _damaged(self._name, self._begin, f"a block of {size:,} bytes")
        block = self._source.take(size)
        if block is None:
            return None
        if unpack_from(f"{self._order}I", block, size - 4)[0] != size:
            raise _damaged(self._name, self._begin, f"a block of {size:,} bytes whose end does not say so")
        return kind, block[8:-4]

    def _read(self, kind: int, body: bytes) -> Packet | None:
        order = self._order
        if kind == _INTERFACE:
            self._interfaces.append(self._read_interface(body))
        elif kind == _SIMPLE_PACKET:
            # Its time was not kept; no earlier one is known to be wrong.
            interface = self._interfaces[0]
            (size,) = unpack_from(f"{order}I", body)
            captured = min(size, interface.snap_bytes or size)
            return Packet(self._last_us, interface.link_type, _part(body, 4, captured), size)
        elif kind == _ENHANCED_PACKET:
            number, high, low, captured, size = unpack_from(f"{order}IIIII", body)
            return self._packet(number, high << 32 | low, _part(body, 20, captured), size)
        elif kind == _OLD_PACKET:
            number, _, high, low, captured, size = unpack_from(f"{order}HHIIII", body)
            return self._packet(number, high << 32 | low, _part(body, 20, captured), size)
        return None

    def _packet(self, number: int, ticks: int, data: bytes, size: int) -> Packet:
        interface = self._interfaces[number]
        time_us = interface.offset_s * 1_000_000 + ticks * 1_000_000 // interface.ticks_a_second
        return Packet(time_us, interface.link_type, data, max(size, len(data)))

    def _read_interface(self, body: bytes) -> _Interface:
        link_type, _, snap_bytes = unpack_from(f"{self._order}HHI", body)
        ticks, offset, position = 1_000_000, 0, 8
        while position + 4 <= len(body):
            option, size = unpack_from(f"{self._order}HH", body, position)
            if option == _END_OF_OPTIONS:
                break
            if option == _TIME_RESOLUTION:
                resolution = body[position + 4]
                # The highest bit says that the rest is a power of two rather than of ten.
                ticks = 1 << (resolution & 0x7F) if resolution & 0x80 else 10**resolution
            elif option == _TIME_OFFSET:
                (offset,) = unpack_from(f"{self._order}q", body, position + 4)
            position += 4 + (size + 3) // 4 * 4
        return _Interface(link_type, snap_bytes, ticks, offset)


def _part(body: bytes, begin: int, size: int) -> bytes:
    if begin + size > len(body):
        raise ValueError(f"a packet of {size:,} bytes in it")
    return body[begin : begin + size]


def _cut_off(source: ByteSource, begin: int, within: bool) -> CutOffPacket | None:
    if not within:
        begin = source.position
    size = source.position + source.rest_bytes - begin
    return CutOffPacket(begin, size) if size else None


def _damaged(name: str, position: int, what: str) -> UserMistake:
    return UserMistake(f"{name} is damaged at byte {position:,}: {what}; what stands before it was read")
