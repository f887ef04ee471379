"""One record's way in three lanes, one per guarantee, shown as it happens and before anything heavy is loaded.

Three topics of one partition on the run's own cluster already hold a few records. The next record is sent to each, and
a fault meets it: at-most-once loses the request, the other two lose the acknowledgement of a request that was appended.
After the fault, and again at the end, the topics are read, so that every offset that is shown was seen in the log.

Invariant: nothing is shown that was not observed: that a fault fired comes from the broker's own count, that a record
was sent again from the number of requests the fault saw, where it is stored from reading the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ottla.audit.promises import PROMISES, Promise
from ottla.errors import OttlaError
from ottla.patience import comes_within
from ottla.showcase.settings import COMMON_SETTINGS

if TYPE_CHECKING:
    from ottla.client.producer import Producer
    from ottla.faults.verbs import FaultInForce
    from ottla.records.delivery import Delivery
    from ottla.showcase.kafka import RunKafka

Record = tuple[bytes | None, bytes]
"""(key, value)"""

# Long enough to look into the log between the lost answer and the second try, and still short for a user who waits.
_RETRY_PAUSE_MS = 200
_PATIENCE_S = 10.0
_LOOK_AGAIN_S = 0.005


class Lane:
    """One guarantee's lane: its topic, its producer, the fault in force, and what was seen so far."""

    def __init__(self, kafka: RunKafka, promise: Promise, topic: str, producer: Producer) -> None:
        self.promise = promise
        self.topic = topic
        self._kafka = kafka
        self._producer = producer
        self._fault: FaultInForce | None = None
        self._delivery: Delivery | None = None

    def send_ahead(self, records: list[Record]) -> None:
        """Store the records that came before, and wait until they are there to be read."""
        for key, value in records:
            self._producer.send(self.topic, value, key)
        try:
            self._producer.flush(_PATIENCE_S)
        except TimeoutError as error:
            raise OttlaError(str(error)) from None
        _until(lambda: len(self.stored()) == len(records), f"the first records of {self.topic} did not arrive")

    def send(self, record: Record) -> None:
        """Put the fault in force and send the record into it."""
        faults = self._kafka.faults
        put_in_force = faults.lose_ack if self.promise.is_answered else faults.lose_request
        self._fault = put_in_force(topic=self.topic, nth=1)
        key, value = record
        self._delivery = self._producer.send(self.topic, value, key)

    def fired(self) -> FaultInForce:
        """The fault, once it has fired."""
        fault = self._fault
        if fault is None:
            raise ValueError("nothing was sent yet")
        _until(lambda: fault.fired == 1, f"the fault did not fire for {self.topic}")
        return fault

    def settled_offset(self) -> int:
        """The offset the producer was told in the end; -1 with acks=0, where it is told nothing."""
        if self._delivery is None:
            raise ValueError("nothing was sent yet")
        try:
            offset: int = self._delivery.result(_PATIENCE_S).offset
        except TimeoutError as error:
            raise OttlaError(str(error)) from None
        return offset

    def stored(self) -> list[tuple[int, bytes | None]]:
        """(offset, value) of every record in the topic, read from the broker."""
        from ottla.client.reader import Reader
        from ottla.records.plain import decode_batches

        found: list[tuple[int, bytes | None]] = []
        with Reader(self._kafka.bootstrap_servers, self.topic, **self._kafka.client_settings) as reader:
            for fetched in reader.iter_raw():
                for _, records in decode_batches(fetched.records):
                    found.extend((record.offset, record.value) for record in records)
        return found

    def offsets_of(self, record: Record) -> list[int]:
        """Where the record is stored, as the log says."""
        return [offset for offset, value in self.stored() if value == record[1]]


def follow_record(kafka: RunKafka, ahead: list[Record], record: Record) -> Generator[tuple[str, str, str], None, None]:
    """Send the record and yield what happens line by line, each with one cell per lane, in the order of `PROMISES`.

    `ahead` are stored first; `record` is the one that is followed. The topics are deleted afterwards.
    """
    from ottla.client.producer import Producer

    with ExitStack() as stack:
        lanes = []
        for guarantee, promise in PROMISES.items():
            topic = kafka.name(f"record-{guarantee}")
            kafka.create_topic(topic, 1)
            stack.callback(kafka.delete_topic, topic)
            settings = {
                **COMMON_SETTINGS,
                **promise.settings,
                **kafka.client_settings,
                "retry_backoff_ms": _RETRY_PAUSE_MS,
                "retry_backoff_max_ms": _RETRY_PAUSE_MS,
            }
            producer = stack.enter_context(Producer(kafka.bootstrap_servers, linger_ms=0, **settings))
            lanes.append(Lane(kafka, promise, topic, producer))
        for lane in lanes:
            lane.send_ahead(ahead)
        for lane in lanes:
            lane.send(record)
        yield _each(lanes, lambda lane: "sent" if lane.promise.is_answered else "sent, no answer asked for")
        yield _each(lanes, lambda lane: _blow(lane, record))
        yield _each(lanes, lambda lane: _second_try(lane, record))
        yield _each(lanes, lambda lane: _stored(lane.offsets_of(record)))


def _each(lanes: list[Lane], tell: Callable[[Lane], str]) -> tuple[str, str, str]:
    first, second, third = (tell(lane) for lane in lanes)
    return first, second, third


def _blow(lane: Lane, record: Record) -> str:
    lane.fired()
    if not lane.promise.is_answered:
        return "request lost on its way"
    # The followers have to have it before it can be read.
    _until(lambda: bool(lane.offsets_of(record)), f"the record was not appended to {lane.topic}")
    return f"appended at offset {lane.offsets_of(record)[0]}, acknowledgement lost"


def _second_try(lane: Lane, record: Record) -> str:
    offset = lane.settled_offset()
    sent_again = lane.fired().matched > 1
    if not sent_again:
        return "nobody noticed: not sent again"
    offsets = lane.offsets_of(record)
    if len(offsets) > 1:
        return f"sent again, appended again at offset {offset}"
    return f"sent again, recognised: acknowledged as offset {offset}"


def _stored(offsets: list[int]) -> str:
    if not offsets:
        return "stored: not at all"
    places = " and ".join(map(str, offsets))
    times = {1: "once", 2: "twice"}.get(len(offsets), f"{len(offsets)} times")
    return f"stored: {times} (offset {places})" if len(offsets) == 1 else f"stored: {times} (offsets {places})"


def _until(done: Callable[[], bool], otherwise: str) -> None:
    """Wait for something the cluster does by itself."""
    if not comes_within(_PATIENCE_S, done, look_again_s=_LOOK_AGAIN_S):
        raise OttlaError(f"{otherwise} within {_PATIENCE_S:.0f} s")
