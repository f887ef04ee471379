"""What limits a producer now, read from what it has counted: a pure function of `Observed` and the settings.

`diagnose` compares figures that only mean something together: how full batches are with how fast records come, how long
batches wait with how long requests take, how long calls wait with how much time has passed. With fewer than
`REQUESTS_MIN` Produce requests it says nothing, unless a call waits for memory. "Nothing limits it" is a result, too: a
producer that gets ten records a second sends small batches, and that does no harm.

Little's law gives how many records are in flight on average: records per second times the time that each takes. A
program that sends one record, waits for it, and sends the next has about one in flight all the time; one that sends a
record now and then has none most of the time. Small batches alone do not show which of the two it is.

Figures are those of the last samples (docs/metrics.md): a problem that is over is not reported any more after
`metrics.sample.window.ms` times `metrics.num.samples`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.producer.settings import ProducerSettings

# Below this the figures are too few to mean anything.
REQUESTS_MIN = 10
# A node's latency is compared with others' from so many answers on.
_ANSWERS_MIN = 10
# Shares of the time, or of the records, from which on something is reported.
_WAITING = 0.1
_FLUSHING = 0.3
_RETRIED = 0.01
# Compression that takes so much of one processor is reported: other threads need it, too.
_BUSY = 0.5
# A batch below this share of batch.size counts as small, one above it as full.
_FULL = 0.5
# With more requests a second to one broker, a longer linger.ms is proposed. The default of 5 ms allows so many.
_MANY_REQUESTS = 200
# It is proposed if it makes batches so many times as large; the shortest that makes them `_MUCH_FEWER_REQUESTS` times.
_FEWER_REQUESTS = 4
_MUCH_FEWER_REQUESTS = 10
_LINGERS_MS = (5, 10, 20, 50, 100)
_SLOWER = 3
_SLOWER_BY_MS = 5
_IN_FLIGHT_MAX = 5
_BATCH_SIZE_STEP = 4
# Bytes of a batch that are not records.
_HEADER_BYTES = 61


class Limit(Enum):
    """What limits a producer; the value is what the documentation calls it."""

    QUOTA = "held back by a quota"
    RETRIES = "records are sent again"
    SLOW_BROKER = "one broker is slow"
    COMPRESSION = "compression takes a processor"
    FEW_IN_FLIGHT = "too few requests in flight"
    SLOW_ANSWERS = "answers take long"
    SLOW_SENDER = "the sender is behind"
    SMALL_BUFFER = "buffer.memory is small"
    FULL_BUFFER = "buffer.memory is full"
    ONE_BY_ONE = "every record is waited for"
    MANY_FLUSHES = "flush comes before batches fill"
    SHORT_TRANSACTIONS = "transactions are short"
    SMALL_BATCHES = "batches are small"


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """What was counted of one broker lately."""

    answers: int
    latency_ms_total: float
    throttle_ms_total: float

    @property
    def latency_ms(self) -> float:
        """Milliseconds that a Produce request took on average."""
        return self.latency_ms_total / self.answers if self.answers else 0.0


@dataclass(frozen=True, slots=True)
class Observed:
    """What a producer has counted in the last `seconds`.

    `partitions` are those that something was sent to. `waits` counts the calls that waited for one delivery,
    `lone_waits` those of them that began while no other record was without its outcome. `last_retry` is why a batch was
    last sent again. `compression_s` is processor time, the other `*_s` are seconds that callers spent waiting.
    `callers_waiting` and `buffer_available` are of this moment.
    """

    seconds: float
    requests: int
    batches: int
    records: int
    bytes: int
    queue_ms_total: float
    partitions: int
    nodes: Mapping[int, NodeSeen]
    retried: int = 0
    last_retry: str = ""
    compression_s: float = 0.0
    waits: int = 0
    lone_waits: int = 0
    buffer_wait_s: float = 0.0
    flush_s: float = 0.0
    transaction_s: float = 0.0
    callers_waiting: int = 0
    buffer_available: int = 0

    @property
    def queue_ms(self) -> float:
        """Milliseconds from a batch's first record to its request, on average."""
        return self.queue_ms_total / self.batches if self.batches else 0.0

    @property
    def latency_ms(self) -> float:
        """Milliseconds from a Produce request to its answer, on average; 0 where there are no answers (acks=0)."""
        answers = sum(node.answers for node in self.nodes.values())
        return sum(node.latency_ms_total for node in self.nodes.values()) / answers if answers else 0.0

    def per_second(self, count: float) -> float:
        """Return how many that is a second; 0 before any time has passed."""
        return count / self.seconds if self.seconds else 0.0

    def share(self, spent_s: float) -> float:
        """Return these seconds as a share of the time, at most 1; seconds of several callers add up."""
        return min(1.0, spent_s / self.seconds) if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that limits the producer.

    `sentence` says it with its figures; `evidence` has the figures under their names, Kafka's where Kafka has one.
    `setting` and `value` are what to try, under Kafka's name; None where no setting of the producer helps. `weight` (0
    to 1) estimates how much it limits; the largest comes first.
    """

    limit: Limit
    sentence: str
    evidence: Mapping[str, float]
    setting: str | None
    value: int | str | None
    weight: float

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What limits a producer: `findings`, the largest weight first, and `sentence`, also where there are none."""

    findings: tuple[Finding, ...]
    sentence: str
    is_certain: bool

    def __str__(self) -> str:
        return self.sentence

    def __bool__(self) -> bool:
        return bool(self.findings)


def diagnose(seen: Observed, settings: ProducerSettings) -> Diagnosis:
    """Say what limits a producer of these settings."""
    if seen.requests < REQUESTS_MIN and not seen.callers_waiting:
        requests = f"{seen.requests} Produce request{'s' * (seen.requests != 1)}"
        return Diagnosis(
            (), f"Too little was sent lately to tell: {requests}, and {REQUESTS_MIN} are needed.", is_certain=False
        )
    case = _Case(seen, settings)
    findings = tuple(sorted(case.findings(), key=lambda finding: -finding.weight))
    if findings:
        return Diagnosis(findings, " ".join(finding.sentence for finding in findings), is_certain=True)
    return Diagnosis((), case.nothing(), is_certain=True)


class _Case:
    """The figures of one producer, and what they say."""

    def __init__(self, seen: Observed, settings: ProducerSettings) -> None:
        self._seen = seen
        self._settings = settings
        self._buffer_share = seen.share(seen.buffer_wait_s)
        if seen.callers_waiting and seen.buffer_available < settings.batch_size:
            # A wait is counted when it is over; a call that still waits is not in the figures.
            self._buffer_share = max(self._buffer_share, _WAITING)
        self._batch_bytes = seen.bytes / seen.batches if seen.batches else 0.0
        self._fill = self._batch_bytes / settings.batch_size if settings.batch_size else 1.0
        self._per_batch = seen.records / seen.batches if seen.batches else 0.0

    def findings(self) -> list[Finding]:
        """Everything that limits it; causes before their effects."""
        # Each of these is a reason why batches wait for their request: the first that applies is reported.
        why_behind = self._quota() or self._slow_broker() or self._compression() or self._behind()
        found = [each for each in (why_behind, self._retries(), self._buffer()) if each is not None]
        waits = self._transactions() or self._flushes() or self._one_by_one()
        if waits is not None:
            found.append(waits)
        elif not found:
            # Not with another finding: a full buffer, retries, or callers that wait make batches small, too.
            small = self._small_batches()
            if small is not None:
                found.append(small)
        return found

    def nothing(self) -> str:
        """The sentence for a producer that is not limited."""
        seen = self._seen
        rate = seen.per_second(seen.records)
        told = (
            f"Nothing in the producer limits it: it sends what the application gives it, {_records(rate)}/s, "
            f"and send waits for room in buffer.memory for {_percent(self._buffer_share)} of the time."
        )
        compressing = seen.per_second(seen.compression_s)
        if compressing >= _WAITING:
            told += f" Compression takes {_percent(compressing)} of a processor's time."
        if self._fill < _FULL and self._waits_for_most():
            told += " Its batches are small because callers wait for single records."
        elif self._fill < _FULL and not self._has_many_requests():
            told += " Its batches do not fill within linger.ms; with so few requests that does no harm."
        return told

    def _quota(self) -> Finding | None:
        seen = self._seen
        throttle_ms = max((node.throttle_ms_total for node in seen.nodes.values()), default=0.0)
        share = seen.share(throttle_ms / 1000)
        if share < _WAITING / 2:
            return None
        answers = sum(node.answers for node in seen.nodes.values())
        average_ms = sum(node.throttle_ms_total for node in seen.nodes.values()) / max(1, answers)
        told = (
            f"A quota of the brokers holds this producer back: they asked it for pauses of {_ms(throttle_ms)} in the "
            f"last {_seconds(seen.seconds)} (produce-throttle-time-avg)."
        )
        evidence = {"produce-throttle-time-avg": average_ms, "throttled share of time": share}
        if self._settings.compression_type == "none":
            told += " A quota counts bytes: compression.type=lz4 gets more records through. Or raise the quota."
            return Finding(Limit.QUOTA, told, evidence, "compression.type", "lz4", share)
        told += " Raise the quota (producer_byte_rate) of its user or client.id."
        return Finding(Limit.QUOTA, told, evidence, None, None, share)

    def _retries(self) -> Finding | None:
        seen = self._seen
        share = seen.retried / seen.records if seen.records else 0.0
        if share < _RETRIED:
            return None
        why = f" The last reason: {seen.last_retry}." if seen.last_retry else ""
        told = (
            f"{_percent(share)} of the records sent had to be sent again (record-retry-rate).{why} No setting makes up "
            "for that: look after the brokers, and at the log of ottla.client."
        )
        return Finding(Limit.RETRIES, told, {"record-retry share": share}, None, None, min(1.0, share))

    def _slow_broker(self) -> Finding | None:
        nodes = {name: node for name, node in self._seen.nodes.items() if node.answers >= _ANSWERS_MIN}
        if len(nodes) < 2:
            return None
        name = max(nodes, key=lambda each: nodes[each].latency_ms)
        slow_ms = nodes[name].latency_ms
        others_ms = median(node.latency_ms for each, node in nodes.items() if each != name)
        if slow_ms < _SLOWER * others_ms or slow_ms < others_ms + _SLOWER_BY_MS:
            return None
        told = (
            f"Broker {name} answers slowly: its request-latency-avg is {_ms(slow_ms)}, that of the others "
            f"{_ms(others_ms)}. Look at that broker and at the network to it."
        )
        evidence = {f"request-latency-avg of broker {name}": slow_ms, "request-latency-avg of the others": others_ms}
        total_ms = sum(node.latency_ms_total for node in nodes.values())
        weight = max(self._buffer_share, nodes[name].latency_ms_total / total_ms)
        settings = self._settings
        if not settings.partitioner_adaptive_partitioning_enable:
            told += " partitioner.adaptive.partitioning.enable=true gives it fewer of the records without a key."
            setting = "partitioner.adaptive.partitioning.enable"
            return Finding(Limit.SLOW_BROKER, told, evidence, setting, "true", weight)
        if settings.partitioner_availability_timeout_ms == 0 and settings.partitioner == "default":
            setting, value = "partitioner.availability.timeout.ms", max(100, round(2 * slow_ms))
            told += f" {setting}={value} keeps records without a key from it while it takes none."
            return Finding(Limit.SLOW_BROKER, told, evidence, setting, value, weight)
        return Finding(Limit.SLOW_BROKER, told, evidence, None, None, weight)

    def _compression(self) -> Finding | None:
        seen, settings = self._seen, self._settings
        processors = seen.per_second(seen.compression_s)
        if processors < _BUSY:
            return None
        codec, level = settings.compression_type, settings.compression_level
        setting: str | None = None
        value: int | str | None = None
        if codec == "zstd" and (level is None or level > 1):
            setting, value = "compression.zstd.level", 1
        elif codec == "lz4" and level is not None:
            # 9, Kafka's default, stands for lz4's fast compressor.
            setting, value = "compression.lz4.level", 9
        elif codec not in ("lz4", "none"):
            setting, value = "compression.type", "lz4"
        told = f"Compression ({codec}) takes {_percent(processors)} of a processor's time."
        told += " More producers share that work." if setting is None else f" {setting}={value} takes less."
        evidence = {"compression share of a processor": processors}
        return Finding(Limit.COMPRESSION, told, evidence, setting, value, min(1.0, processors))

    def _behind(self) -> Finding | None:
        """Whether full batches wait for their request, and why."""
        seen, settings = self._seen, self._settings
        if self._fill < _FULL or not seen.batches or seen.queue_ms <= settings.linger_ms + seen.latency_ms:
            return None
        evidence = {
            "record-queue-time-avg": seen.queue_ms,
            "request-latency-avg": seen.latency_ms,
            "batch-size-avg": self._batch_bytes,
        }
        waits = f"full batches wait {_ms(seen.queue_ms)} for a request (record-queue-time-avg)"
        # How many requests were in flight to the busiest broker, on average.
        in_flight = seen.per_second(max((node.latency_ms_total for node in seen.nodes.values()), default=0.0) / 1000)
        evidence["requests in flight"] = in_flight
        weight = max(self._buffer_share, seen.queue_ms / (seen.queue_ms + seen.latency_ms) / 2)
        most = settings.in_flight_max
        if settings.acks and in_flight >= _FULL * most:
            if most < _IN_FLIGHT_MAX:
                setting = "max.in.flight.requests.per.connection"
                told = (
                    f"Too few requests are in flight: {waits}, and a request takes {_ms(seen.latency_ms)} "
                    f"(request-latency-avg) with {most} at a time. {setting}={_IN_FLIGHT_MAX} sends more meanwhile."
                )
                return Finding(Limit.FEW_IN_FLIGHT, told, evidence, setting, _IN_FLIGHT_MAX, weight)
            told = (
                f"Brokers answer more slowly than batches fill: a request takes {_ms(seen.latency_ms)} "
                f"(request-latency-avg), and {waits}."
            )
            return self._larger_batches(Limit.SLOW_ANSWERS, told, evidence, weight)
        if self._buffer_share < _WAITING or self._is_small_buffer():
            return None
        told = f"The sender is behind: {waits}, and only {in_flight:.1f} requests are in flight."
        return self._larger_batches(Limit.SLOW_SENDER, told, evidence, weight)

    def _larger_batches(self, limit: Limit, told: str, evidence: Mapping[str, float], weight: float) -> Finding:
        settings = self._settings
        larger = settings.batch_size * _BATCH_SIZE_STEP
        # send_table makes batches of 1 MB, also with the default of batch.size.
        if self._batch_bytes < larger <= settings.max_request_size:
            told += f" batch.size={larger} has each request carry more."
            return Finding(limit, told, evidence, "batch.size", larger, weight)
        if settings.compression_type == "none":
            told += " compression.type=lz4 has each request carry more."
            return Finding(limit, told, evidence, "compression.type", "lz4", weight)
        return Finding(limit, told + " More partitions or brokers would share the work.", evidence, None, None, weight)

    def _is_small_buffer(self) -> bool:
        """Whether `buffer.memory` has no room for two full batches for each partition."""
        settings = self._settings
        open_bytes = settings.batch_size * max(1, self._seen.partitions)
        return settings.buffer_memory < 2 * open_bytes

    def _buffer(self) -> Finding | None:
        seen, settings = self._seen, self._settings
        if self._buffer_share < _WAITING:
            return None
        evidence = {
            "bufferpool-wait-ratio": self._buffer_share,
            "buffer-available-bytes": float(seen.buffer_available),
            "waiting-threads": float(seen.callers_waiting),
        }
        if seen.share(seen.buffer_wait_s) >= _WAITING:
            waits = f"send waits for room in it for {_percent(self._buffer_share)} of the time (bufferpool-wait-ratio)"
        else:
            waits = "a call of send waits for room in it now (waiting-threads)"
        if self._is_small_buffer():
            least = _BATCH_SIZE_STEP * settings.batch_size * max(1, seen.partitions)
            value = max(_BATCH_SIZE_STEP * settings.buffer_memory, least)
            told = (
                f"buffer.memory={settings.buffer_memory} is small for batch.size={settings.batch_size} and "
                f"{max(1, seen.partitions)} partitions: {waits}, before batches are full. buffer.memory={value} has "
                "room for them."
            )
            return Finding(Limit.SMALL_BUFFER, told, evidence, "buffer.memory", value, self._buffer_share)
        told = f"buffer.memory is full: {waits}. Records leave it more slowly than the application sends them."
        setting, value_text = None, None
        if settings.compression_type == "none":
            setting, value_text = "compression.type", "lz4"
            told += " compression.type=lz4 sends fewer bytes."
        return Finding(Limit.FULL_BUFFER, told, evidence, setting, value_text, self._buffer_share)

    def _transactions(self) -> Finding | None:
        share = self._seen.share(self._seen.transaction_s)
        if share < _FLUSHING or self._fill >= _FULL:
            return None
        told = (
            f"Transactions are short: their calls (commit_transaction above all) take {_percent(share)} of the time, "
            f"and a batch has {_records(self._per_batch)}. Put more records into each transaction."
        )
        evidence = {"txn share of time": share, "records per batch": self._per_batch}
        return Finding(Limit.SHORT_TRANSACTIONS, told, evidence, None, None, share)

    def _flushes(self) -> Finding | None:
        share = self._seen.share(self._seen.flush_s)
        if share < _FLUSHING or self._fill >= _FULL:
            return None
        told = (
            f"flush comes before batches fill: it takes {_percent(share)} of the time, and a batch has "
            f"{_records(self._per_batch)}. Send more records before each flush, or look at their deliveries later."
        )
        evidence = {"flush share of time": share, "records per batch": self._per_batch}
        return Finding(Limit.MANY_FLUSHES, told, evidence, None, None, share)

    def _one_by_one(self) -> Finding | None:
        seen, settings = self._seen, self._settings
        if not seen.records or seen.lone_waits < _FULL * seen.records:
            return None
        each_ms = seen.queue_ms + seen.latency_ms
        on_their_way = seen.per_second(seen.records) * each_ms / 1000
        # If most of the time none is, the application waits for something else between two records.
        if on_their_way < _FULL:
            return None
        told = (
            f"The application waits for each record before it sends the next: {_number(seen.per_second(seen.records))} "
            f"records/s, each {_ms(each_ms)} on its way (record-queue-time-avg + request-latency-avg). Send many, and "
            "look at their deliveries later."
        )
        evidence = {
            "record-queue-time-avg": seen.queue_ms,
            "request-latency-avg": seen.latency_ms,
            "records on their way": on_their_way,
        }
        weight = min(1.0, on_their_way)
        if settings.linger_ms and seen.queue_ms > seen.latency_ms:
            told += " If you must wait for each, set linger.ms=0."
            return Finding(Limit.ONE_BY_ONE, told, evidence, "linger.ms", 0, weight)
        return Finding(Limit.ONE_BY_ONE, told, evidence, None, None, weight)

    def _waits_for_most(self) -> bool:
        """Whether most records are waited for one by one; a longer linger does not help such callers."""
        return self._seen.waits >= _FULL * self._seen.records

    def _has_many_requests(self) -> bool:
        # With acks=0 there are no answers that show which brokers get requests: all are counted.
        nodes = sum(node.answers > 0 for node in self._seen.nodes.values()) or len(self._seen.nodes)
        return self._seen.per_second(self._seen.requests) > _MANY_REQUESTS * max(1, nodes)

    def _small_batches(self) -> Finding | None:
        seen, settings = self._seen, self._settings
        if self._fill >= _FULL or self._waits_for_most() or not self._has_many_requests():
            return None
        per_second = seen.per_second(seen.requests)
        better = self._better_linger()
        if better is None:
            return None
        linger_ms, records = better
        told = (
            f"Batches are small: batch-size-avg is {_number(self._batch_bytes)} bytes, {_percent(self._fill)} of "
            f"batch.size={settings.batch_size}, and {_number(per_second)} Produce requests leave each second. "
            f"linger.ms={linger_ms} lets about {_number(records)} records into a batch instead of "
            f"{_number(self._per_batch)}."
        )
        evidence = {
            "batch-size-avg": self._batch_bytes,
            "Produce requests/s": per_second,
            "records per batch": self._per_batch,
        }
        return Finding(Limit.SMALL_BATCHES, told, evidence, "linger.ms", linger_ms, (1 - self._fill) / 2)

    def _better_linger(self) -> tuple[int, float] | None:
        """Return the shortest linger.ms that fills batches or makes them ten times as large, else the longest one.

        Also how many records such a batch has; None where that is less than four times as many as now. It is computed
        as if all partitions got the same number of records.
        """
        seen, settings = self._seen, self._settings
        per_ms = seen.per_second(seen.records) / 1000 / max(1, seen.partitions)
        record_bytes = (seen.bytes - _HEADER_BYTES * seen.batches) / max(1, seen.records)
        full = max(1.0, settings.batch_size / max(1.0, record_bytes))
        longer = [each for each in _LINGERS_MS if each > settings.linger_ms]
        for linger_ms in longer:
            records = min(full, per_ms * linger_ms)
            if records >= min(full, _MUCH_FEWER_REQUESTS * self._per_batch) or linger_ms == longer[-1]:
                return (linger_ms, records) if records >= _FEWER_REQUESTS * self._per_batch else None
        return None


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")


def _records(value: float) -> str:
    number = _number(value)
    return "1 record" if number == "1" else f"{number} records"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %".replace(".0 %", " %")


def _ms(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"


def _seconds(value: float) -> str:
    return f"{value:,.0f} s" if value >= 10 else f"{value:.1f} s"
