"""What the producer counts: per batch and request, never per record.

There is a `Meter` for each topic, one for the producer as a whole, and (in `connection.traffic`) one for each node and
one for the I/O thread. Kafka's figures for a client as a whole are added up from its topics and nodes when `metrics()`
is called. `metric_table` says which figure is computed from which sums, and its name in Kafka.

As in Java's producer, a batch that is sent again counts again among the records sent, and its time in the queue runs
from its first record each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ottla.connection.sampled import Meter, SampleClock, Window
from ottla.connection.traffic import LoopMeter, NodeMeter
from ottla.producer.figures import Metrics
from ottla.producer.metric_table import CLIENT_ROWS, NODE_ROWS, TOPIC_ROWS, figures_of
from ottla.records.batch_header import HEADER_BYTES

if TYPE_CHECKING:
    from ottla.producer.diagnosis import Observed
    from ottla.records.delivery import SealedBatch


class TopicMeter(Meter):
    """What was sent to one topic and what became of it."""

    SUMS = (
        "batches",
        "records",
        "bytes",
        "record_bytes",
        "compression_ratio",
        "queue_us",
        "pack_ns",
        "records_retried",
        "records_acked",
        "records_failed",
        "records_unknown",
        "record_errors",
        "splits",
    )
    PEAKS = ("batch_bytes_max", "record_bytes_max", "queue_us_max")
    __slots__ = SUMS + PEAKS

    batches: int
    records: int
    bytes: int
    record_bytes: int
    compression_ratio: float
    queue_us: int
    pack_ns: int
    records_retried: int
    records_acked: int
    records_failed: int
    records_unknown: int
    record_errors: int
    splits: int
    batch_bytes_max: int
    record_bytes_max: int
    queue_us_max: int

    def sent(self, batch: SealedBatch, now_us: int) -> None:
        """Count a batch that is sent, for the first time or again."""
        size, uncompressed, queue_us = batch.size_bytes, batch.uncompressed_bytes, now_us - batch.created_us
        self.batches += 1
        self.records += batch.record_count
        self.bytes += size
        self.record_bytes += uncompressed - HEADER_BYTES
        self.compression_ratio += size / uncompressed
        self.queue_us += queue_us
        self.pack_ns += batch.pack_ns
        batch.pack_ns = 0  # it may be sent again, and is compressed once
        if size > self.batch_bytes_max:
            self.batch_bytes_max = size
        if queue_us > self.queue_us_max:
            self.queue_us_max = queue_us
        if batch.record_bytes_max > self.record_bytes_max:
            self.record_bytes_max = batch.record_bytes_max

    def gave_up(self, batch: SealedBatch, *, unknown: bool) -> None:
        """Count a batch that is failed or unknown; Kafka's metrics have one number for both."""
        self.record_errors += batch.record_count
        if unknown:
            self.records_unknown += batch.record_count
        else:
            self.records_failed += batch.record_count


class ClientMeter(Meter):
    """What is not of one topic; the times are those that users' threads spent in the producer's calls."""

    SUMS = (
        "produce_requests",
        "buffer_wait_ns",
        "buffer_exhausted",
        "metadata_wait_ns",
        "flush_ns",
        "txn_init_ns",
        "txn_begin_ns",
        "txn_send_offsets_ns",
        "txn_prepare_ns",
        "txn_commit_ns",
        "txn_abort_ns",
        "waits",
        "lone_waits",
    )
    __slots__ = SUMS

    produce_requests: int
    buffer_wait_ns: int
    buffer_exhausted: int
    metadata_wait_ns: int
    flush_ns: int
    txn_init_ns: int
    txn_begin_ns: int
    txn_send_offsets_ns: int
    txn_prepare_ns: int
    txn_commit_ns: int
    txn_abort_ns: int
    # Calls that waited for one delivery, and those of them that began while no other record was without its outcome.
    # Threads add to them without a lock: a few may be missing.
    waits: int
    lone_waits: int


class AllTopics(Meter):
    """What a diagnosis needs of all topics together: added up once for each sample, not with each batch."""

    SUMS = ("batches", "records", "bytes", "queue_us", "pack_ns", "records_retried")
    __slots__ = SUMS

    batches: int
    records: int
    bytes: int
    queue_us: int
    pack_ns: int
    records_retried: int


class ProducerMetrics:
    """All meters of one producer; `nodes` are the connection core's."""

    __slots__ = ("_all_topics", "_client_id", "_nodes", "client", "clock", "last_retry", "loop", "topics")

    def __init__(self, clock: SampleClock, nodes: Mapping[int, NodeMeter], client_id: str) -> None:
        self.clock = clock
        self.client = ClientMeter()
        self.loop = LoopMeter()
        self.topics: dict[str, TopicMeter] = {}
        self._all_topics = AllTopics()
        self._nodes = nodes
        self._client_id = client_id
        # Why a batch was last sent again.
        self.last_retry = ""

    def topic(self, name: str) -> TopicMeter:
        """Return the topic's meter, made when it is first asked for."""
        meter = self.topics.get(name)
        if meter is None:
            meter = self.topics[name] = TopicMeter(self.clock.last_us)
        return meter

    def tick(self, now_us: int) -> None:
        """Note the time, and begin new samples if the window is over."""
        clock = self.clock
        if now_us >= clock.due_us:
            of_all = self._all_topics
            for name, value in zip(AllTopics.SUMS, self._sums_of_topics(), strict=True):
                setattr(of_all, name, value)
            clock.advance(self._meters(), now_us)
        clock.last_us = now_us

    def _meters(self) -> Iterator[Meter]:
        yield self.client
        yield self.loop
        yield self._all_topics
        yield from self.topics.values()
        yield from self._nodes.values()

    def _sums_of_topics(self) -> tuple[Any, ...]:
        """Add up what was sent to all topics, in the order of `AllTopics.SUMS`; with thousands of topics it is slow."""
        batches = records = size = queue_us = pack_ns = retried = 0
        for meter in list(self.topics.values()):
            batches += meter.batches
            records += meter.records
            size += meter.bytes
            queue_us += meter.queue_us
            pack_ns += meter.pack_ns
            retried += meter.records_retried
        return batches, records, size, queue_us, pack_ns, retried

    def read(self, now_us: int, gauges: Mapping[str, float]) -> Metrics:
        """Return every figure as of this moment; `gauges` are those that are not counted by meters."""
        clock = self.clock
        # Copies, each made in one step: users' threads call this while the core goes on.
        topics = {name: meter.read(clock, now_us) for name, meter in list(self.topics.items())}
        nodes = {node_id: meter.read(clock, now_us) for node_id, meter in list(self._nodes.items())}
        client = _together(topics.values(), TopicMeter, clock)
        client.add(_together(nodes.values(), NodeMeter, clock))
        client.add(self.client.read(clock, now_us))
        client.add(self.loop.read(clock, now_us))
        return Metrics(
            self._client_id,
            figures_of(CLIENT_ROWS, client, gauges),
            {node_id: figures_of(NODE_ROWS, window, {}) for node_id, window in nodes.items()},
            {name: figures_of(TOPIC_ROWS, window, {}) for name, window in topics.items()},
        )

    def observe(self, now_us: int, partitions: int, callers_waiting: int, buffer_available: int) -> Observed:
        """Return what a diagnosis is made of; the last three arguments are of this moment. Any thread may call this."""
        from ottla.producer.diagnosis import NodeSeen, Observed

        clock = self.clock
        client = self.client.read(clock, now_us)
        nodes = {node_id: meter.read(clock, now_us).recent for node_id, meter in list(self._nodes.items())}
        mine = client.recent
        lately = self._all_topics.lately(self._sums_of_topics(), clock, now_us)
        sent = dict(zip(AllTopics.SUMS, lately, strict=True))
        return Observed(
            seconds=client.seconds,
            requests=int(mine["produce_requests"]),
            batches=int(sent["batches"]),
            records=int(sent["records"]),
            bytes=int(sent["bytes"]),
            queue_ms_total=sent["queue_us"] / 1000,
            partitions=partitions,
            nodes={
                node_id: NodeSeen(
                    int(node["produce_answers"]), node["produce_latency_us"] / 1000, float(node["throttle_ms"])
                )
                for node_id, node in nodes.items()
            },
            retried=int(sent["records_retried"]),
            compression_s=sent["pack_ns"] / 1e9,
            last_retry=self.last_retry,
            waits=int(mine["waits"]),
            lone_waits=int(mine["lone_waits"]),
            buffer_wait_s=mine["buffer_wait_ns"] / 1e9,
            flush_s=mine["flush_ns"] / 1e9,
            transaction_s=sum(value for name, value in mine.items() if name.startswith("txn_")) / 1e9,
            callers_waiting=callers_waiting,
            buffer_available=buffer_available,
        )


def _together(windows: Iterable[Window], kind: type[Meter], clock: SampleClock) -> Window:
    """Add up what meters of one kind counted; zeros where there is none."""
    total = kind().read(clock, 0)
    for window in windows:
        total.add(window)
    return total
