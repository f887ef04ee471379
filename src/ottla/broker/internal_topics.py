"""The topics in which coordinators keep their state, `__consumer_offsets` and `__transaction_state`.

Each key (a group, a transactional id) belongs to one partition, whose leader is its coordinator. The controller makes
such a topic at the first FindCoordinator that needs it. A broker that begins to lead a partition reads its log: for
transactions at once, for groups at the first request. Coordinators append as acks=all does: a record counts, and is
answered, when the high watermark has passed it. The same holds for what they read. Records of a former leader may still
be lost until they are replicated, so the log is read after that; until then the answer is COORDINATOR_LOAD_IN_PROGRESS,
or COORDINATOR_NOT_AVAILABLE while too few replicas are in sync. (Apache Kafka's transaction coordinator reads to the
log's end at once: if it has acted on a record that is lost afterwards, a transaction stays open for good.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ottla.broker.outbox import Outbox
from ottla.broker.partition import Partition
from ottla.broker.purgatory import Purgatory
from ottla.broker.refused import Refused
from ottla.broker.replicas import Replicas
from ottla.broker.settings import BrokerSettings
from ottla.broker.topic_names import TRANSACTIONS_TOPIC
from ottla.broker.wall_clock import WallClock
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.records.batch_header import BatchHeader, read_header
from ottla.records.plain import Record, decode_batches, encode_batch

_LOAD_BYTES = 1 << 20
# In a request: the default of the brokers' settings.
_DEFAULT = -1
_SEGMENT_BYTES = 100 << 20  # as Kafka's offsets.topic.segment.bytes and transaction.state.log.segment.bytes
# (key, value) of a record.
Pair = tuple[bytes, bytes | None]


class InternalTopic:
    """One of these topics on one broker: which of its partitions are led here, and how records get into them."""

    def __init__(self, name: str, replicas: Replicas, purgatory: Purgatory, outbox: Outbox, clock: WallClock) -> None:
        self._name = name
        self._replicas = replicas
        self._purgatory = purgatory
        self._outbox = outbox
        self._clock = clock

    @property
    def partitions(self) -> dict[int, Partition]:
        """The partitions that this broker holds, by index."""
        return self._replicas.topics.get(self._name, {})

    def partition_of(self, key: str) -> Partition | None:
        """The partition of the key, where this broker leads it; None where it does not."""
        image = self._replicas.image.topics.get(self._name)
        if image is None:
            return None
        partition = self.partitions.get(partition_of_key(key, len(image.partitions)))
        return partition if partition is not None and partition.is_leader else None

    def append(
        self, partition: Partition, pairs: Sequence[Pair], now_us: int, *, producer: tuple[int, int] | None = None
    ) -> int:
        """Append records and return the log's end behind them; Refused where that cannot be.

        `producer` is the (producer id, epoch) of the transaction that they belong to.
        """
        if not partition.is_leader:
            raise Refused(ErrorCode.NOT_COORDINATOR)
        log = partition.log
        if log is None or len(partition.isr) < partition.min_isr:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        wall_ms = self._clock.ms(now_us)
        records = [Record(index, wall_ms, key, value) for index, (key, value) in enumerate(pairs)]
        if producer is None:
            batch = bytearray(encode_batch(records))
        else:
            error_code = log.producers.check_epoch(*producer)
            if error_code:
                raise Refused(error_code)
            batch = bytearray(
                encode_batch(records, producer_id=producer[0], producer_epoch=producer[1], is_transactional=True)
            )
        if len(batch) > partition.settings.max_message_bytes:
            raise Refused(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
        try:
            partition.append(batch, read_header(batch), now_us)
        except OSError as error:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        return log.log_end_offset

    def await_replication(
        self,
        partition: Partition,
        end_offset: int,
        timeout_ms: int,
        apply: Callable[[int], None],
        answer: Callable[[int, int], None],
        now_us: int,
    ) -> None:
        """Wait until everything in front of `end_offset` is replicated.

        `answer(error code, now)` is called once, after `timeout_ms` at the latest; `apply(now)` when it is replicated,
        which may be later than the answer.
        """
        pending = PendingAppend(self._purgatory, apply, answer)
        if end_offset <= partition.high_watermark:
            pending.replicated(0, 0, now_us)
            return
        self._purgatory.add(pending, now_us + timeout_ms * 1000)
        partition.await_replication(end_offset, self._outbox.next_number(), pending)


class PendingAppend:
    """Records in the log that are not replicated yet; see `InternalTopic.await_replication`."""

    def __init__(self, purgatory: Purgatory, apply: Callable[[int], None], answer: Callable[[int, int], None]) -> None:
        self.bucket = -1
        self._purgatory = purgatory
        self._apply = apply
        self._answer: Callable[[int, int], None] | None = answer

    def replicated(self, order: int, error_code: int, now_us: int) -> None:
        """They are replicated, or this broker leads the partition no more."""
        self._purgatory.remove(self)
        if not error_code:
            self._apply(now_us)
        self._finish(ErrorCode.NOT_COORDINATOR if error_code else 0, now_us)

    def expire(self, now_us: int) -> None:
        """The client waits no more; they may still be replicated."""
        self._finish(ErrorCode.COORDINATOR_NOT_AVAILABLE, now_us)

    def _finish(self, error_code: int, now_us: int) -> None:
        if self._answer is not None:
            answer, self._answer = self._answer, None
            answer(error_code, now_us)


def partition_of_key(key: str, count: int) -> int:
    """The partition whose leader coordinates a key: Java's `String.hashCode`, without its sign, modulo `count`."""
    code = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        code = (31 * code + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    if code >> 31:
        # Kafka's abs: the smallest number, which has no positive counterpart, becomes 0.
        code = ((1 << 32) - code) & 0x7FFFFFFF
    return code % count


def creation_of(topic: str, settings: BrokerSettings, broker_count: int) -> CreateTopicsRequest:
    """What to ask the controller for an internal topic; so many brokers are alive."""
    configs = {"cleanup.policy": "compact", "segment.bytes": str(_SEGMENT_BYTES)}
    count, factor = settings.offsets_topic_num_partitions, settings.offsets_topic_replication_factor
    if topic == TRANSACTIONS_TOPIC:
        count = settings.transaction_state_log_num_partitions
        factor = settings.transaction_state_log_replication_factor
        # A cluster of one broker has one replica to be in sync.
        least = min(settings.transaction_state_log_min_isr, broker_count)
        configs["min.insync.replicas"] = str(least)
    asked = CreatableTopic(
        name=topic,
        num_partitions=count,
        replication_factor=factor or _DEFAULT,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
    return CreateTopicsRequest(topics=[asked])


def replicated_batches(partition: Partition, now_us: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Every replicated batch with its records, in order; Refused, OSError, CorruptBatch.

    Refused where the log ends with records of a former leader that are not replicated: nothing may be built on them.
    """
    log = partition.log
    assert log is not None
    if partition.high_watermark < partition.epoch_start_offset:
        partition.advance_high_watermark(now_us)  # For a log opened late that has no other replica: no Fetch moves it.
        if partition.high_watermark < partition.epoch_start_offset:
            # Where too few are in sync, this lasts until another replica is back.
            is_short = len(partition.isr) < partition.min_isr
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE if is_short else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            raise Refused(code)
    position, end_offset = log.log_start_offset, partition.high_watermark
    while position < end_offset:
        found = log.slice(position, end_offset, _LOAD_BYTES, True)
        if found is None:
            return
        for header, records in decode_batches(found.read()):
            position = header.base_offset + header.last_offset_delta + 1
            yield header, records
