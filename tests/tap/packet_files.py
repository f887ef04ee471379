"""Packets of TCP connections, and pcap and pcapng files of them, made by hand for the tests of tap."""

from __future__ import annotations

from ipaddress import ip_address
from struct import pack

from ottla.tap.packets import ACK, FIN, SYN
from ottla.tap.pcap import Packet

CLIENT, BROKER = ("10.0.0.1", 40000), ("10.0.0.2", 9092)
CLIENT_6, BROKER_6 = ("fd00::1", 40000), ("fd00::2", 9092)
ETHERNET, NULL, COOKED, COOKED_2, RAW = 1, 0, 113, 276, 101
Address = tuple[str, int]


def tcp(
    source: Address, target: Address, sequence: int, payload: bytes = b"", flags: int = ACK, acknowledged: int = 0
) -> bytes:
    """An IP packet with a TCP segment; checksums are left out, as network cards leave them out of captures."""
    segment = pack(">HHIIBBHHH", source[1], target[1], sequence % (1 << 32), acknowledged, 5 << 4, flags, 0, 0, 0)
    segment += payload
    addresses = ip_address(source[0]).packed + ip_address(target[0]).packed
    if len(addresses) == 8:
        return pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0, 64, 6, 0) + addresses + segment
    return pack(">IHBB", 6 << 28, len(segment), 6, 64) + addresses + segment


def linked(ip: bytes, link_type: int, *, vlans: int = 0, order: str = "<") -> bytes:
    """The IP packet as a link carries it."""
    kind = 0x0800 if ip[0] >> 4 == 4 else 0x86DD
    tags = b"".join(pack(">HH", 7, 0x8100 if number < vlans - 1 else kind) for number in range(vlans))
    kind = 0x8100 if vlans else kind
    match link_type:
        case 1:
            # Ethernet pads short packets.
            return (bytes(12) + pack(">H", kind) + tags + ip).ljust(60, b"\0")
        case 113:
            return bytes(14) + pack(">H", kind) + tags + ip
        case 276:
            return pack(">H", kind) + bytes(18) + tags + ip
        case 0:
            return pack(f"{order}I", 2 if ip[0] >> 4 == 4 else 30) + ip
    return ip


def packets(
    *pieces: tuple[Address, Address, int, bytes, int], link_type: int = ETHERNET, begin_us: int = 1_000_000
) -> list[Packet]:
    """Packets, a millisecond apart, of (source, target, sequence, payload, flags).

    Each acknowledges all that the other side has sent by then.
    """
    reached = {source: sequence for source, _, sequence, _, _ in reversed(pieces)}
    found = []
    for number, (source, target, sequence, payload, flags) in enumerate(pieces):
        data = linked(tcp(source, target, sequence, payload, flags, reached.get(target, 0)), link_type)
        found.append(Packet(begin_us + 1_000 * number, link_type, data, len(data)))
        end = (sequence + len(payload) + bool(flags & SYN)) % (1 << 32)
        reached[source] = end if flags & SYN else max(reached[source], end)
    return found


def opening(client: Address = CLIENT, broker: Address = BROKER) -> list[tuple[Address, Address, int, bytes, int]]:
    """The handshake of a connection whose first bytes are number 1000 (client) and 5000 (broker)."""
    return [(client, broker, 999, b"", SYN), (broker, client, 4999, b"", SYN | ACK), (client, broker, 1000, b"", ACK)]


def closing(
    sent: int, received: int, client: Address = CLIENT, broker: Address = BROKER
) -> list[tuple[Address, Address, int, bytes, int]]:
    return [(client, broker, 1000 + sent, b"", FIN | ACK), (broker, client, 5000 + received, b"", FIN | ACK)]


def pcap(given: list[Packet], *, order: str = "<", nanoseconds: bool = False, snap: int = 262_144) -> bytes:
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    data = pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, snap, given[0].link_type if given else ETHERNET)
    for packet in given:
        fraction = packet.time_us % 1_000_000 * (1_000 if nanoseconds else 1)
        part = packet.data[:snap]
        data += pack(f"{order}IIII", packet.time_us // 1_000_000, fraction, len(part), packet.size_bytes) + part
    return data


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    size = pack(f"{order}I", len(body) + 12)
    return pack(f"{order}I", kind) + size + body + size


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link_type: int, order: str = "<", *, resolution: int | None = None, offset_s: int | None = None) -> bytes:
    options = b""
    if resolution is not None:
        options += pack(f"{order}HHB3x", 9, 1, resolution)
    if offset_s is not None:
        options += pack(f"{order}HHq", 14, 8, offset_s)
    return block(
        1, pack(f"{order}HHI", link_type, 0, 0) + options + (pack(f"{order}HH", 0, 0) if options else b""), order
    )


def enhanced(packet: Packet, order: str = "<", *, number: int = 0, ticks_a_second: int = 1_000_000) -> bytes:
    ticks = packet.time_us * ticks_a_second // 1_000_000
    head = pack(f"{order}IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(packet.data), packet.size_bytes)
    return block(6, head + packet.data, order)


def pcapng(given: list[Packet], *, order: str = "<") -> bytes:
    """A section, an interface, a block that is no packet, and the packets."""
    comment = block(4, b"names", order)
    return section(order) + interface(given[0].link_type, order) + comment + b"".join(enhanced(p, order) for p in given)
