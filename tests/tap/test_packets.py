"""TCP segments out of packets of every link that is read, and nothing out of all others."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tap.packet_files import (
    BROKER,
    BROKER_6,
    CLIENT,
    CLIENT_6,
    COOKED,
    COOKED_2,
    ETHERNET,
    NULL,
    RAW,
    linked,
    tcp,
)

from ottla.tap.packets import ACK, LINK_TYPES, Segment, segment_in
from ottla.tap.pcap import Packet


def read(data: bytes, link_type: int, size: int | None = None) -> Segment | None:
    return segment_in(Packet(0, link_type, data, len(data) if size is None else size))


@pytest.mark.parametrize("link_type", [ETHERNET, NULL, 108, COOKED, COOKED_2, RAW, 12, 14])
@pytest.mark.parametrize(("source", "target"), [(CLIENT, BROKER), (CLIENT_6, BROKER_6)], ids=["IPv4", "IPv6"])
def test_segments_are_found_on_every_link(link_type: int, source: tuple[str, int], target: tuple[str, int]) -> None:
    ip = tcp(source, target, 7, b"abc", ACK, 9)
    data = linked(ip, NULL, order=">") if link_type == 108 else linked(ip, link_type)
    segment = read(data, link_type)
    assert segment is not None
    names = [f"{host}:{port}" if ":" not in host else f"[{host}]:{port}" for host, port in (source, target)]
    assert [segment.source, segment.target] == names
    assert (segment.sequence, segment.acknowledged, segment.flags) == (7, 9, ACK)
    assert (bytes(segment.payload), segment.missing_bytes) == (b"abc", 0)


@pytest.mark.parametrize("link_type", [ETHERNET, COOKED, COOKED_2])
@pytest.mark.parametrize("vlans", [1, 2])
def test_vlan_tags_are_passed_over(link_type: int, vlans: int) -> None:
    segment = read(linked(tcp(CLIENT, BROKER, 7, b"abc"), link_type, vlans=vlans), link_type)
    assert segment is not None
    assert bytes(segment.payload) == b"abc"


def test_what_was_not_captured_of_a_packet_is_counted() -> None:
    data = linked(tcp(CLIENT, BROKER, 7, bytes(100)), RAW)
    segment = read(data[:70], RAW, len(data))
    assert segment is not None
    assert (len(segment.payload), segment.missing_bytes) == (30, 70)


def test_a_packet_whose_length_was_left_to_the_network_card_is_read_whole() -> None:
    data = bytearray(tcp(CLIENT, BROKER, 7, b"abc"))
    data[2:4] = b"\0\0"
    segment = read(bytes(data), RAW)
    assert segment is not None
    assert bytes(segment.payload) == b"abc"


def test_extension_headers_of_ipv6_are_passed_over() -> None:
    data = tcp(CLIENT_6, BROKER_6, 7, b"abc")
    # Hop-by-hop options of 8 bytes, then a header of authentication of 12, then a fragment that is the whole packet.
    extensions = bytes([51, 0]) + bytes(6) + bytes([44, 1]) + bytes(10) + bytes([6, 0]) + bytes(6)
    size = int.from_bytes(data[4:6]) + len(extensions)
    with_them = data[:4] + pack(">HB", size, 0) + data[7:40] + extensions + data[40:]
    segment = read(with_them, RAW)
    assert segment is not None
    assert bytes(segment.payload) == b"abc"


def test_what_is_no_tcp_is_none() -> None:
    ip = bytearray(tcp(CLIENT, BROKER, 7, b"abc"))
    fragment = bytes(ip[:6]) + b"\x20\x00" + bytes(ip[8:])
    udp = bytes(ip[:9]) + b"\x11" + bytes(ip[10:])
    assert [read(data, RAW) for data in (fragment, udp, b"", b"\x75" * 60)] == [None] * 4
    assert read(linked(bytes(ip), ETHERNET).replace(b"\x08\x00", b"\x08\x06", 1), ETHERNET) is None


@given(st.binary(max_size=120), st.sampled_from(LINK_TYPES))
def test_no_packet_raises(data: bytes, link_type: int) -> None:
    read(data, link_type)


@given(st.integers(0, 100), st.sampled_from([ETHERNET, NULL, COOKED, COOKED_2, RAW]), st.booleans())
def test_no_packet_that_is_cut_short_raises(size: int, link_type: int, is_ipv6: bool) -> None:
    ends = (CLIENT_6, BROKER_6) if is_ipv6 else (CLIENT, BROKER)
    read(linked(tcp(*ends, 7, b"abc"), link_type)[:size], link_type)
