"""pcap and pcapng files: both byte orders, times of every resolution, cut off and damaged ones."""

from __future__ import annotations

import io
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tap.packet_files import (
    ETHERNET,
    RAW,
    block,
    enhanced,
    interface,
    opening,
    packets,
    pcap,
    pcapng,
    section,
)

from ottla.errors import UserMistake
from ottla.tap.byte_source import ByteSource
from ottla.tap.pcap import Packet, PcapngReader, PcapReader

GIVEN = packets(*opening(), begin_us=1_795_526_662_999_000)


def reader(kind: Any, data: bytes) -> Any:
    return kind(ByteSource(io.BytesIO(data)), "it")


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_pcap_is_read_in_both_orders(order: str, nanoseconds: bool) -> None:
    read = reader(PcapReader, pcap(GIVEN, order=order, nanoseconds=nanoseconds))
    assert list(read.packets()) == GIVEN
    assert read.cut_off is None


@pytest.mark.parametrize("order", "<>")
def test_pcapng_is_read_in_both_orders(order: str) -> None:
    read = reader(PcapngReader, pcapng(GIVEN, order=order))
    assert list(read.packets()) == GIVEN
    assert read.cut_off is None


def test_packets_that_were_not_captured_whole_keep_their_size() -> None:
    (packet, *_) = reader(PcapReader, pcap(GIVEN, snap=40)).packets()
    assert (len(packet.data), packet.size_bytes) == (40, GIVEN[0].size_bytes)


@pytest.mark.parametrize(
    ("resolution", "ticks", "offset"), [(9, 10**9, 0), (3, 1000, 0), (0x8A, 1024, 0), (6, 10**6, 3600)]
)
def test_each_interface_of_pcapng_has_its_own_clock(resolution: int, ticks: int, offset: int) -> None:
    packet = Packet(1_700_000_000_000_000, RAW, b"abcd", 9)
    data = section() + interface(ETHERNET) + interface(RAW, resolution=resolution, offset_s=offset)
    data += enhanced(packet, number=1, ticks_a_second=ticks)
    (read,) = reader(PcapngReader, data).packets()
    assert read == packet._replace(time_us=packet.time_us + offset * 1_000_000)


def test_sections_of_other_byte_orders_follow_each_other() -> None:
    read = list(reader(PcapngReader, pcapng(GIVEN[:1]) + pcapng(GIVEN[1:], order=">")).packets())
    assert read == GIVEN


def test_simple_and_obsolete_packet_blocks_are_read() -> None:
    old = block(2, pack("<HHIIII", 0, 0, 0, 5, 3, 8) + b"abc")
    simple = block(3, pack("<I", 4) + b"wxyz")
    read = list(reader(PcapngReader, section() + interface(RAW) + old + simple).packets())
    assert read == [Packet(5, RAW, b"abc", 8), Packet(5, RAW, b"wxyz", 4)]


@pytest.mark.parametrize(("kind", "data"), [(PcapReader, pcap(GIVEN)), (PcapngReader, pcapng(GIVEN))])
def test_wherever_a_file_is_cut_off_its_whole_packets_are_read_and_the_place_is_told(kind: Any, data: bytes) -> None:
    ends = [reader_end(kind, data, count) for count in range(len(GIVEN) + 1)]
    for size in range(len(data)):
        read = reader(kind, data[:size])
        found = list(read.packets())
        assert found == GIVEN[: sum(end <= size for end in ends[1:])]
        told = read.cut_off
        if told is not None:
            assert told.position + told.size_bytes == size
        if kind is PcapReader and size not in (0, *ends):
            assert told is not None
            assert told.position == max([0, *(end for end in ends if end <= size)])


def reader_end(kind: Any, data: bytes, count: int) -> int:
    """Where the file stands behind so many packets."""
    source = ByteSource(io.BytesIO(data))
    found = kind(source, "it").packets()
    for _ in range(count):
        next(found)
    if count == 0:
        return 24
    return source.position


@pytest.mark.parametrize(("kind", "data"), [(PcapReader, pcap(GIVEN)), (PcapngReader, pcapng(GIVEN))])
def test_a_file_is_read_while_it_grows(kind: Any, data: bytes) -> None:
    file = io.BytesIO()
    read = kind(ByteSource(file), "it")
    found: list[Packet] = []
    for begin in range(0, len(data), 7):
        position = file.tell()
        file.seek(0, io.SEEK_END)
        file.write(data[begin : begin + 7])
        file.seek(position)
        found += read.packets()
    assert found == GIVEN
    assert read.cut_off is None


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        (PcapReader, pcap(GIVEN) + bytes(8) + b"\xff" * 8, "at byte 252: a packet of 4,294,967,295 bytes"),
        (PcapngReader, section() + bytes(12), "at byte 28: a block of 0 bytes"),
        (PcapngReader, section() + pack("<III", 6, 13, 0), "at byte 28: a block of 13 bytes"),
        (PcapngReader, section() + enhanced(GIVEN[0]), "at byte 28: a block of type 6 that cannot be read: list index"),
        (PcapngReader, section() + block(1, b""), "at byte 28: a block of type 1 that cannot be read"),
        (PcapngReader, section()[:8] + bytes(20), "at byte 0: a section without a byte order"),
        (PcapngReader, section()[:-1] + b"\7", "whose end does not say so"),
        (
            PcapngReader,
            section() + interface(RAW) + block(6, pack("<IIIII", 0, 0, 0, 500, 500)),
            "at byte 48: a block of type 6 that cannot be read: a packet of 500 bytes in it",
        ),
    ],
)
def test_damage_is_told_with_its_place(kind: Any, data: bytes, why: str) -> None:
    with pytest.raises(UserMistake, match=f"^it is damaged {why}" if why.startswith("at") else why):
        list(reader(kind, data).packets())


@given(st.data())
def test_damaged_files_raise_nothing_else(data: st.DataObject) -> None:
    kind, whole = data.draw(st.sampled_from([(PcapReader, pcap(GIVEN)), (PcapngReader, pcapng(GIVEN))]))
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        list(reader(kind, bytes(damaged)).packets())
    except UserMistake as raised:
        told = str(raised)
    else:
        told = "it is damaged at byte"
    assert told.startswith("it is damaged at byte")
