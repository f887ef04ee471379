"""TCP connections out of segments, each a `Conversation`: put in order, without what was sent twice.

A segment that is ahead of its place waits for those before it. They are lost to the recording once the other side has
acknowledged what waits, once too much waits, or once the connection or the recording has ended; the conversation is
then told how many bytes are missing.

Who opened a connection is the client. Where that was not seen, the client is who sends what begins like a request; as
long as nobody does, bytes are counted and passed over.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from ottla.tap.conversation import Conversation, begins_request, begins_tls
from ottla.tap.exchange import Entry, Way
from ottla.tap.packets import ACK, FIN, LINK_TYPES, RST, SYN, Segment, segment_in
from ottla.tap.pcap import Packet

_SEQUENCES = 1 << 32
# So much is held back of one side that is ahead of its place.
_HELD_BYTES_MAX = 4 << 20


class _Held(NamedTuple):
    """What one side sent beyond bytes that were not seen yet: at which place of all its bytes, and as the how-manieth.

    These two put held segments in order: a heap of thousands costs no more for each of them than one of a few.
    """

    place: int
    order: int
    payload: bytes
    missing_bytes: int


class _Side:
    """One side of a connection, and how far its bytes have been passed on."""

    def __init__(self) -> None:
        # The next byte's number; None until a segment was seen.
        self.next: int | None = None
        # How many bytes came before that one: sequence numbers go round, places do not.
        self.place = 0
        # A heap.
        self.held: list[_Held] = []
        self.held_bytes = 0
        self._order = 0
        self.has_ended = False
        # Bytes that came before it was known whose they are.
        self.undecided_bytes = 0

    @property
    def hole_bytes(self) -> int:
        """How many bytes are missing before the first segment that is held."""
        return self.held[0].place - self.place

    def hold(self, begin: int, sequence: int, payload: bytes, missing_bytes: int) -> None:
        """Keep a segment whose first byte has this number; `begin` is `next`."""
        self._order += 1
        place = self.place + _distance(sequence, begin)
        heappush(self.held, _Held(place, self._order, payload, missing_bytes))
        self.held_bytes += len(payload)

    def advance(self, count: int) -> None:
        """So many bytes were passed on, or given up."""
        self.next = ((self.next or 0) + count) % _SEQUENCES
        self.place += count


class _Connection:
    """A connection between two addresses; `conversation` once it is known who is the client."""

    def __init__(self, number: int, first: Segment, is_begun: bool) -> None:
        self.number = number
        self.is_begun = is_begun
        self.sides = {first.source: _Side(), first.target: _Side()}
        self.conversation: Conversation | None = None
        self.client = ""
        self.has_ended = False
        self.first_sequence = first.sequence


class Connections:
    """`add` packets in the order of the recording, `end` it: both give what is known by then.

    `strange_links` counts packets by types of links that are not read, `short_packets` those that were not captured
    whole. `hashes` and `payloads` are as for `Conversation`.
    """

    def __init__(self, *, hashes: bool = True, payloads: bool = False) -> None:
        self._hashes = hashes
        self._payloads = payloads
        self._open: dict[frozenset[str], _Connection] = {}
        self._topic_names: dict[bytes, str] = {}
        self._count = 0
        self._last_us = 0
        self.strange_links: dict[int, int] = {}
        self.short_packets = 0

    def add(self, packet: Packet) -> list[Entry]:
        """A packet was captured."""
        if packet.link_type not in LINK_TYPES:
            self.strange_links[packet.link_type] = self.strange_links.get(packet.link_type, 0) + 1
            return []
        segment = segment_in(packet)
        if segment is None or segment.source == segment.target:
            return []
        self._last_us = packet.time_us
        self.short_packets += segment.missing_bytes > 0
        found: list[Entry] = []
        connection = self._connection(segment, found)
        if connection is not None and not connection.has_ended:
            self._take(connection, segment, found)
        return found

    def end(self) -> list[Entry]:
        """The recording has ended."""
        found: list[Entry] = []
        for connection in self._open.values():
            if not connection.has_ended:
                self._finish(connection, found, "the recording ended")
        return found

    def _connection(self, segment: Segment, found: list[Entry]) -> _Connection | None:
        key = frozenset((segment.source, segment.target))
        known = self._open.get(key)
        opens = bool(segment.flags & SYN) and not segment.flags & ACK
        if known is not None and (
            not opens or (known.first_sequence == segment.sequence and known.is_begun and not known.has_ended)
        ):
            return known
        if known is None and segment.flags & RST:
            return None
        if known is not None and not known.has_ended:
            self._finish(known, found, "the same addresses opened another connection")
        self._count += 1
        made = _Connection(self._count, segment, bool(segment.flags & SYN))
        self._open[key] = made
        if segment.flags & SYN:
            self._decide(made, segment.source if opens else segment.target)
        return made

    def _decide(self, connection: _Connection, client: str) -> Conversation:
        """It is known who is the client."""
        broker = next(each for each in connection.sides if each != client)
        connection.client = client
        connection.conversation = Conversation(
            connection.number,
            client,
            broker,
            hashes=self._hashes,
            payloads=self._payloads,
            is_begun=connection.is_begun,
            topic_names=self._topic_names,
        )
        for name, side in connection.sides.items():
            connection.conversation.lose(self._way(connection, name), side.undecided_bytes, self._last_us)
            side.undecided_bytes = 0
        return connection.conversation

    def _way(self, connection: _Connection, source: str) -> Way:
        return Way.TO_BROKER if source == connection.client else Way.TO_CLIENT

    def _take(self, connection: _Connection, segment: Segment, found: list[Entry]) -> None:
        side = connection.sides[segment.source]
        sequence = segment.sequence + 1 if segment.flags & SYN else segment.sequence
        if side.next is None:
            side.next = sequence % _SEQUENCES
        if segment.flags & ACK:
            # First of all: the payload may be the answer to what is held back.
            self._give_up_holes(connection, segment.target, segment.acknowledged, found)
        if segment.payload or segment.missing_bytes:
            side.hold(side.next, sequence % _SEQUENCES, bytes(segment.payload), segment.missing_bytes)
            self._pass_on(connection, segment.source, found)
            self._give_up_holes(connection, segment.source, side.next, found)
        if segment.flags & FIN:
            side.has_ended = True
        if segment.flags & RST or all(each.has_ended and not each.held for each in connection.sides.values()):
            self._finish(connection, found, "the connection ended")

    def _give_up_holes(self, connection: _Connection, source: str, acknowledged: int, found: list[Entry]) -> None:
        """What has been received will not be sent again, so a hole before it stays one."""
        side = connection.sides[source]
        if side.next is None:
            # Nothing of this side was seen: what it sends next begins here.
            side.next = acknowledged
        while side.held:
            first = side.hole_bytes
            is_received = _distance(acknowledged, side.next) > first
            if not is_received and side.held_bytes <= _HELD_BYTES_MAX:
                return
            self._skip(connection, source, first, found)

    def _pass_on(self, connection: _Connection, source: str, found: list[Entry]) -> None:
        """All that is held of this side and in its place by now."""
        side = connection.sides[source]
        while side.held and side.hole_bytes <= 0:
            held = heappop(side.held)
            side.held_bytes -= len(held.payload)
            seen_bytes = side.place - held.place
            new_bytes = len(held.payload) + held.missing_bytes - seen_bytes
            if new_bytes <= 0:
                continue
            payload = held.payload[seen_bytes:]
            side.advance(new_bytes)
            self._tell(connection, source, payload, new_bytes - len(payload), found)

    def _skip(self, connection: _Connection, source: str, count: int, found: list[Entry]) -> None:
        connection.sides[source].advance(count)
        self._tell(connection, source, b"", count, found)
        self._pass_on(connection, source, found)

    def _tell(
        self, connection: _Connection, source: str, payload: bytes, missing_bytes: int, found: list[Entry]
    ) -> None:
        conversation = connection.conversation
        if conversation is None and begins_request(memoryview(payload)):
            conversation = self._decide(connection, source)
        elif conversation is None and begins_tls(payload):
            conversation = self._decide_by_port(connection)
        if conversation is None:
            connection.sides[source].undecided_bytes += len(payload) + missing_bytes
            return
        way = self._way(connection, source)
        if payload:
            found += conversation.receive(way, payload, self._last_us)
        found += conversation.lose(way, missing_bytes, self._last_us)

    def _decide_by_port(self, connection: _Connection) -> Conversation:
        """Clients are given high ports."""
        return self._decide(connection, max(connection.sides, key=lambda name: int(name.rsplit(":", 1)[1])))

    def _finish(self, connection: _Connection, found: list[Entry], why: str) -> None:
        connection.has_ended = True
        for source, side in connection.sides.items():
            while side.held:
                self._skip(connection, source, side.hole_bytes, found)
        conversation = connection.conversation
        if conversation is None and any(side.undecided_bytes for side in connection.sides.values()):
            conversation = self._decide_by_port(connection)
        if conversation is not None:
            found += conversation.end(self._last_us, why=why)
        connection.conversation = None


def _distance(sequence: int, begin: int) -> int:
    """How far a sequence number is ahead of another; negative where it is behind. The numbers go round (RFC 9293)."""
    return (sequence - begin + _SEQUENCES // 2) % _SEQUENCES - _SEQUENCES // 2
