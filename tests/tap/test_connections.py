"""TCP segments become conversations: in whatever order, however often, and with holes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tap.packet_files import BROKER, CLIENT, closing, linked, opening, packets, tcp
from tests.tap.talk import answered, asked, batch, exchanges, produce, produced, remarks

from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.tap.connections import Connections
from ottla.tap.exchange import Entry, Outcome, RemarkKind
from ottla.tap.packets import ACK, RST, SYN
from ottla.tap.pcap import Packet

Piece = tuple[tuple[str, int], tuple[str, int], int, bytes, int]
REQUEST = asked(produce(batch(body=bytes(range(200)))), 9, 1) + asked(MetadataRequest(), 9, 2)
ANSWER = answered(produced(5), 9, 1) + answered(MetadataResponse(), 9, 2)


def sent(begin: int, end: int, base: int = 1000) -> Piece:
    return CLIENT, BROKER, base + begin, REQUEST[begin:end], ACK


def got(begin: int, end: int, base: int = 5000) -> Piece:
    return BROKER, CLIENT, base + begin, ANSWER[begin:end], ACK


def seen(pieces: Sequence[Piece], *, end: bool = True) -> list[Entry]:
    connections = Connections()
    found = [entry for packet in packets(*pieces) for entry in connections.add(packet)]
    return found + (connections.end() if end else [])


def whole(entries: list[Entry]) -> list[tuple[str | None, Outcome, str | None]]:
    return [(entry.api, entry.outcome, entry.unread) for entry in exchanges(entries)]


BOTH = [("Produce", Outcome.ANSWERED, None), ("Metadata", Outcome.ANSWERED, None)]
IN_ORDER = [sent(0, 100), sent(100, 200), sent(200, len(REQUEST)), got(0, 30), got(30, len(ANSWER))]


def test_a_connection_that_was_seen_from_its_beginning_to_its_end() -> None:
    found = seen([*opening(), *IN_ORDER, *closing(len(REQUEST), len(ANSWER))], end=False)
    assert whole(found) == BOTH
    assert not remarks(found)
    first = exchanges(found)[0]
    assert (first.client, first.broker) == ("10.0.0.1:40000", "10.0.0.2:9092")


@given(st.permutations(IN_ORDER[:3]), st.permutations(IN_ORDER[3:]))
def test_segments_are_put_in_order(requests: list[Piece], answers: list[Piece]) -> None:
    found = seen([*opening(), *requests, *answers])
    assert whole(found) == BOTH
    assert not remarks(found)


def test_segments_that_come_twice_or_overlap_count_once() -> None:
    again = [sent(0, 100), sent(50, 150), sent(0, 100), sent(100, len(REQUEST)), sent(120, len(REQUEST))]
    keepalive = (CLIENT, BROKER, 1000 + len(REQUEST) - 1, b"\0", ACK)
    found = seen([*opening(), *opening(), *again, keepalive, got(0, len(ANSWER))])
    assert whole(found) == BOTH
    assert not remarks(found)


def test_sequence_numbers_go_round() -> None:
    base = (1 << 32) - 50
    syn: list[Piece] = [(CLIENT, BROKER, base - 1, b"", SYN), (BROKER, CLIENT, 4999, b"", SYN | ACK)]
    found = seen([*syn, sent(0, 100, base), sent(100, len(REQUEST), base), got(0, len(ANSWER))])
    assert whole(found) == BOTH


def test_a_hole_is_told_once_the_other_side_has_acknowledged_what_is_behind_it() -> None:
    connections = Connections()
    found: list[Entry] = []
    *before, answer = packets(*opening(), sent(0, 50), sent(150, len(REQUEST)), got(0, len(ANSWER)))
    for packet in before:
        found += connections.add(packet)
    assert not found
    produce_seen, metadata_seen = exchanges(connections.add(answer))
    assert produce_seen.missing_bytes == len(asked(produce(batch(body=bytes(range(200)))), 9, 1)) - 50
    assert (produce_seen.outcome, produce_seen.partitions[0].offset) == (Outcome.ANSWERED, 5)
    assert (metadata_seen.api, metadata_seen.missing_bytes) == ("Metadata", 0)


def test_a_hole_at_the_end_of_a_recording_is_told() -> None:
    found = seen([*opening(), sent(0, 50), sent(150, len(REQUEST))])
    assert [(entry.api, entry.outcome) for entry in exchanges(found)] == [
        ("Produce", Outcome.UNANSWERED),
        ("Metadata", Outcome.UNANSWERED),
    ]
    assert exchanges(found)[0].missing_bytes > 100


def test_ten_thousand_small_segments_in_the_wrong_order_cost_no_more_than_in_the_right_one() -> None:
    """Where each of them is compared with all that are held, this takes a minute and more."""
    many = REQUEST * (10_000 // len(REQUEST) + 1)
    last_first = [(CLIENT, BROKER, 1000 + place, many[place : place + 1], ACK) for place in reversed(range(len(many)))]
    found = seen([*opening(), *last_first])
    assert not remarks(found)
    assert [entry.api for entry in exchanges(found)] == ["Produce", "Metadata"] * (len(many) // len(REQUEST))


def test_too_much_that_waits_for_a_hole_is_not_held_back() -> None:
    connections = Connections()
    big = asked(produce(batch(body=bytes(60_000))), 9, 1)
    for packet in packets(*opening(), sent(0, 10)):
        connections.add(packet)
    found: list[Entry] = []
    for number in range(100):
        piece = (CLIENT, BROKER, 1000 + len(REQUEST) + number * len(big), big, ACK)
        found += [entry for packet in packets(piece) for entry in connections.add(packet)]
    assert RemarkKind.LOST in [entry.kind for entry in remarks(found)]
    assert len(exchanges(connections.end())) > 50


@pytest.mark.parametrize("begin", [0, 40])
def test_a_connection_whose_beginning_was_not_captured_is_read_from_its_first_whole_request(begin: int) -> None:
    late = asked(MetadataRequest(), 9, 3)
    pieces = [sent(begin, len(REQUEST)), got(begin, len(ANSWER))]
    pieces.append((CLIENT, BROKER, 1000 + len(REQUEST), late, ACK))
    pieces.append((BROKER, CLIENT, 5000 + len(ANSWER), answered(MetadataResponse(), 9, 3), ACK))
    found = seen(pieces)
    apis = [entry.api for entry in exchanges(found)]
    assert apis == (["Metadata"] if begin else ["Produce", "Metadata", "Metadata"])
    assert all(entry.outcome is Outcome.ANSWERED for entry in exchanges(found))
    assert sum(entry.size_bytes for entry in remarks(found)) == (len(REQUEST) + len(ANSWER) - 2 * begin if begin else 0)


def test_bytes_of_which_nobody_knows_what_they_are_are_counted() -> None:
    found = seen([(CLIENT, BROKER, 1, b"hello", ACK), (BROKER, CLIENT, 1, b"world!", ACK)])
    assert not exchanges(found)
    assert [(entry.kind, entry.size_bytes) for entry in remarks(found)] == [
        (RemarkKind.BEGINNING_UNSEEN, 5),
        (RemarkKind.BEGINNING_UNSEEN, 6),
    ]


@pytest.mark.parametrize("is_begun", [True, False])
def test_tls_is_told(is_begun: bool) -> None:
    record = b"\x17\x03\x03\x00\x40" + bytes(64)
    pieces: list[Piece] = [(CLIENT, BROKER, 1000, record, ACK), (BROKER, CLIENT, 5000, record, ACK)]
    found = seen([*(opening() if is_begun else []), *pieces])
    assert {entry.kind for entry in remarks(found)} == {RemarkKind.TLS}
    assert remarks(found)[0].client == "10.0.0.1:40000"


def test_a_connection_that_is_reset_ends_and_the_next_one_with_its_addresses_is_another() -> None:
    reset: Piece = (BROKER, CLIENT, 5000, b"", RST)
    found = seen([*opening(), *IN_ORDER[:3], reset, *IN_ORDER[:3], *opening(), *IN_ORDER])
    assert [(entry.connection, entry.outcome) for entry in exchanges(found)] == [
        (1, Outcome.UNANSWERED),
        (1, Outcome.UNANSWERED),
        (2, Outcome.ANSWERED),
        (2, Outcome.ANSWERED),
    ]


def test_addresses_that_are_used_again_without_an_end_end_the_first_connection() -> None:
    other: list[Piece] = [(CLIENT, BROKER, 70_000, b"", SYN), (BROKER, CLIENT, 4999, b"", SYN | ACK)]
    found = seen([*opening(), *IN_ORDER[:3], *other, sent(0, len(REQUEST), 70_001), got(0, len(ANSWER))])
    assert [entry.outcome for entry in exchanges(found)] == [Outcome.UNANSWERED] * 2 + [Outcome.ANSWERED] * 2


def test_an_answer_to_the_handshake_that_was_not_captured_loses_nothing() -> None:
    first, _, _ = opening()
    acknowledging = linked(tcp(CLIENT, BROKER, 1000, b"", ACK, 5000), 1)
    connections = Connections()
    found: list[Entry] = []
    for packet in [*packets(first), Packet(1, 1, acknowledging, len(acknowledging)), *packets(*IN_ORDER)]:
        found += connections.add(packet)
    assert whole(found) == BOTH


def test_links_that_are_not_read_are_counted() -> None:
    connections = Connections()
    assert connections.add(Packet(0, 127, b"radio", 5)) == []
    assert connections.strange_links == {127: 1}


PIECES = st.one_of(
    st.sampled_from([*opening(), *IN_ORDER, *closing(len(REQUEST), len(ANSWER)), (BROKER, CLIENT, 5000, b"", RST)]),
    st.builds(
        lambda ends, sequence, payload, flags: (*ends, sequence, payload, flags),
        st.sampled_from([(CLIENT, BROKER), (BROKER, CLIENT)]),
        st.integers(0, (1 << 32) - 1),
        st.binary(max_size=30),
        st.integers(0, 0x3F),
    ),
)


@given(st.lists(PIECES, max_size=20))
def test_no_order_of_segments_raises(pieces: list[Piece]) -> None:
    seen(pieces)
