"""Records what happens to one topic while brokers run.

It notes Produce requests, faults, brokers that end and start, leaders and high watermarks.

It runs in the brokers' process. It gets each request before the broker does and each answer before the client does, and
looks at the replicas whenever a broker has handled something. At the moment of an answer it notes which running brokers
have the batch, and which have synced it to their disk.

Invariants: what it keeps is bounded (`EXCHANGES_MAX`, `EVENTS_MAX`). Exchanges and events beyond that are counted;
watermarks (also at most `EXCHANGES_MAX`) are not. Of a batch only the header and the numbers of its first and last
record are kept; its memory is released with the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from ottla.broker.events import ClusterImage, ConnectionLost, HangUp, RequestReceived, Respond
from ottla.errors import OttlaError
from ottla.host.host import DOWN as HOST_DOWN
from ottla.protocol.error_codes import error_name
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.batch_header import BatchHeader, CorruptBatch, read_header
from ottla.records.plain import decode_batches

if TYPE_CHECKING:
    from ottla.faults.fault import Fault
    from ottla.host.faults_in_force import FaultsInForce
    from ottla.host.host import Host

EXCHANGES_MAX = 50_000
EVENTS_MAX = 5_000
ANSWERED, HUNG_UP, CLIENT_LEFT, BROKER_ENDED, OPEN = "answered", "hung up", "client left", "broker ended", ""
"""How an exchange ended; OPEN for one that had not ended."""
BEGINS, FIRES, HEALED, DOWN, STARTS, LEADS = "begins", "fires", "healed", "down", "starts", "leads"
"""Kinds of events."""


class _Exchange:
    """A batch of a Produce request that was not answered yet: what is noted of it, and its bytes."""

    __slots__ = ("noted", "records")

    def __init__(self, noted: dict[str, Any], records: Any) -> None:
        self.noted = noted
        self.records = records


class Recorder:
    """Records one topic of one cluster; records have their numbers in the header `number_header`."""

    def __init__(self, host: Host, faults: FaultsInForce, topic: str, number_header: str) -> None:
        self._host = host
        self._faults = faults
        self._topic = topic
        self._number_header = number_header
        self._exchanges: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []
        self._watermarks: list[tuple[int, int, int]] = []
        self._left_out = 0
        # (broker, connection) -> correlation id -> its batches. No two connections have the same number.
        self._open: dict[tuple[int, int], dict[int, list[_Exchange]]] = {}
        self._fired: dict[int, int] = {}
        self._roles: dict[int, tuple[int, int, tuple[int, ...]]] = {}
        self._committed: dict[int, int] = {}
        # The order of events: several have the same microsecond.
        self._order = count(1)
        # The broker that handles a request now, 0 for none.
        self._at_work = 0
        host.watch(self.broker_acted)
        if host.links.image is not None:
            self.image_published(host.links.image)

    def told(self) -> dict[str, Any]:
        """All of it as plain values."""
        for of_connection in self._open.values():
            for batches in of_connection.values():
                for each in batches:
                    _note_append(each)
        return {
            "exchanges": self._exchanges,
            "events": self._events,
            "watermarks": self._watermarks,
            "left_out": self._left_out,
        }

    # ---- requests and answers -----------------------------------------------------------------------------------

    def arriving(self, broker_id: int, event: Any) -> None:
        """Called with a client's request, or the end of its connection, before the broker gets it."""
        if type(event) is ConnectionLost:
            for batches in self._open.pop((broker_id, event.connection_id), {}).values():
                self._end(batches, CLIENT_LEFT)
        elif type(event) is RequestReceived and type(event.message) is ProduceRequest:
            batches = list(self._batches(broker_id, event))
            if batches:
                self._open.setdefault((broker_id, event.connection_id), {})[event.correlation_id] = batches
            if self._host.state(broker_id) == HOST_DOWN:
                # It was in the socket when the broker ended.
                self._end(batches, BROKER_ENDED)
        self._at_work = broker_id

    def arrived(self) -> None:
        """Called when the broker has done what it could do at once."""
        self._at_work = 0

    def answering(self, broker_id: int, response: Respond) -> None:
        """Called with an answer before it is sent; without a message for acks=0."""
        batches = self._open.get((broker_id, response.connection_id), {}).pop(response.correlation_id, None)
        if batches is None:
            return
        if response.message is not None:
            answers = {part.index: part for topic in response.message.responses for part in topic.partition_responses}
            for each in batches:
                answer = answers.get(each.noted["partition"])
                if answer is not None:
                    each.noted["base_offset"] = answer.base_offset
                    each.noted["error"] = error_name(answer.error_code) if answer.error_code else ""
        self._end(batches, ANSWERED)

    def hanging_up(self, broker_id: int, output: HangUp) -> None:
        """Called when the broker closes a connection; its open requests get no answer."""
        for batches in self._open.pop((broker_id, output.connection_id), {}).values():
            self._end(batches, HUNG_UP, output.reason)

    def _batches(self, broker_id: int, event: RequestReceived) -> Iterator[_Exchange]:
        for topic in event.message.topic_data:
            # From version 13 on a topic has an id in place of its name; the broker fills in the name later.
            if topic.name != self._topic if topic.name else not self._is_ours(topic.topic_id):
                continue
            for data in topic.partition_data:
                if len(self._exchanges) >= EXCHANGES_MAX:
                    self._left_out += 1
                    continue
                records = data.records
                if isinstance(records, list | tuple):
                    records = b"".join(records)
                try:
                    header = read_header(records)
                except (CorruptBatch, TypeError):
                    continue
                noted = self._noted(broker_id, event, data.index, header)
                noted["first"], noted["last"] = self._numbers(records)
                self._exchanges.append(noted)
                yield _Exchange(noted, records)

    def _is_ours(self, topic_id: Any) -> bool:
        image = self._host.links.image
        found = None if image is None else image.topics.get(self._topic)
        return found is not None and found.topic_id == topic_id

    def _noted(self, broker_id: int, event: RequestReceived, partition: int, header: BatchHeader) -> dict[str, Any]:
        return {
            "order": next(self._order),
            "at_us": self._host.schedule.now_us,
            "ended_order": -1,
            "ended_us": -1,
            "broker": broker_id,
            "connection": event.connection_id,
            "partition": partition,
            "acks": event.message.acks,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "sequence": header.base_sequence,
            "count": header.record_count,
            "size": header.size_bytes,
            "crc": header.crc,
            "first": -1,
            "last": -1,
            "appended_at": -1,
            "base_offset": -1,
            "error": "",
            "ending": OPEN,
            "reason": "",
            "high_watermark": -1,
            "held": [],
            "synced": [],
        }

    def _numbers(self, records: Any) -> tuple[int, int]:
        """The numbers of the first and the last record of a batch; -1 for a record without one."""
        try:
            _, found = next(decode_batches(records, verify=False))
        except (OttlaError, StopIteration):
            return -1, -1
        return (self._number(found[0]), self._number(found[-1])) if found else (-1, -1)

    def _number(self, record: Any) -> int:
        packed = next((value for name, value in record.headers if name == self._number_header), None)
        return -1 if packed is None or len(packed) != 8 else int.from_bytes(packed, "big")

    def _end(self, batches: list[_Exchange], ending: str, reason: str = "") -> None:
        for each in batches:
            _note_append(each)
            noted = each.noted
            noted["ended_order"], noted["ended_us"] = next(self._order), self._host.schedule.now_us
            noted["ending"], noted["reason"] = ending, reason
            noted["high_watermark"] = self._committed.get(noted["partition"], 0)
            place = noted["appended_at"] if noted["appended_at"] >= 0 else noted["base_offset"]
            if place >= 0:
                last = place + noted["count"] - 1
                noted["held"], noted["synced"] = self._holders(noted["partition"], last)

    def _holders(self, partition: int, offset: int) -> tuple[list[int], list[int]]:
        """The running brokers whose log has this offset, and those of them that have synced it."""
        held, synced = [], []
        for core in self._host.cores():
            replica = core.topics.get(self._topic, {}).get(partition)
            log = None if replica is None else replica.log
            if log is None or not log.log_start_offset <= offset < log.log_end_offset:
                continue
            held.append(core.broker_id)
            if self._is_synced(core.broker_id, log, offset):
                synced.append(core.broker_id)
        return held, synced

    def _is_synced(self, broker_id: int, log: Any, offset: int) -> bool:
        write_back: Any = self._host.disks[broker_id].write_back
        if all(write_back.synced_bytes(each.path, each.size) >= each.size for each in log.segments):
            return True
        try:
            path, position = log.byte_of(offset)
        except (OttlaError, OSError):
            return False
        # Synced bytes end between two writes, so if a byte inside of the batch is synced, all of it is.
        return bool(write_back.synced_bytes(path, position + 1) > position)

    # ---- replicas, faults and leaders ---------------------------------------------------------------------------

    def broker_acted(self, broker_id: int) -> None:
        """Called when a broker has handled something: note new high watermarks and faults that fired."""
        self.look_at_faults()
        core: Any = self._host.brokers[broker_id].core
        for index, replica in core.topics.get(self._topic, {}).items():
            if replica.is_leader and replica.high_watermark != self._committed.get(index, 0):
                self._committed[index] = replica.high_watermark
                if len(self._watermarks) < EXCHANGES_MAX:
                    self._watermarks.append((self._host.schedule.now_us, index, replica.high_watermark))

    def look_at_faults(self) -> None:
        """Note which faults have fired since the last call; those that apply to no requests only the first time."""
        for effect in self._faults.effects:
            before, fired = self._fired.get(effect.fault_id, 0), effect.fired
            if fired > before:
                self._fired[effect.fault_id] = fired
                if effect.fault.applies_to_requests or not before:
                    self._note(FIRES, broker=self._at_work, fault=effect.fault_id, words=effect.fault.kind)

    def fault_begins(self, fault: Fault) -> Callable[[], None]:
        """Note that a fault begins; the caller calls the result if the fault is refused."""
        noted = self._note(BEGINS, broker=getattr(fault, "broker_id", None) or 0, words=fault.tell())

        def refused() -> None:
            if noted is not None:
                self._events.remove(noted)

        return refused

    def fault_healed(self, fault: Fault) -> None:
        """Note that a fault has ended."""
        self._note(HEALED, broker=getattr(fault, "broker_id", None) or 0, words=fault.tell())

    def broker_fell(self, broker_id: int, kind: str) -> None:
        """Note that a broker has ended; its open requests get no answer."""
        self.look_at_faults()
        for place in [each for each in self._open if each[0] == broker_id]:
            for batches in self._open.pop(place).values():
                self._end(batches, BROKER_ENDED)
        self._note(DOWN, broker=broker_id, words=kind)

    def broker_started(self, broker_id: int) -> None:
        """Note that a broker that was down is started."""
        self._note(STARTS, broker=broker_id)

    def image_published(self, image: ClusterImage) -> None:
        """Note new leaders and in-sync replicas."""
        found = image.topics.get(self._topic)
        for index, part in enumerate(found.partitions if found is not None else ()):
            role = part.leader, part.leader_epoch, tuple(part.isr)
            before = self._roles.get(index)
            if role != before:
                self._roles[index] = role
                self._note(
                    LEADS,
                    broker=max(part.leader, 0),
                    partition=index,
                    leader=part.leader,
                    was=-1 if before is None else before[0],
                    epoch=part.leader_epoch,
                    isr=list(part.isr),
                )

    def _note(self, kind: str, **more: Any) -> dict[str, Any] | None:
        """Keep an event if there is room, and return it."""
        if len(self._events) >= EVENTS_MAX:
            self._left_out += 1
            return None
        event = {"order": next(self._order), "at_us": self._host.schedule.now_us, "kind": kind, **more}
        self._events.append(event)
        return event


def _note_append(exchange: _Exchange) -> None:
    """Note where a batch was appended: the leader writes offset and leader epoch into the received bytes."""
    header = read_header(exchange.records)
    if header.partition_leader_epoch >= 0:
        exchange.noted["appended_at"] = header.base_offset
