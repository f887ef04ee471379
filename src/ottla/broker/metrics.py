"""What a broker counts: plain integers, a few dozen nanoseconds each. `metric_beans` reports them.

The driver measures how long requests and their stages take, as a core has no clock. Percentiles come from buckets a
quarter of a power of two wide.
"""

from __future__ import annotations

from ottla.broker.events import PartitionImage

_BUCKETS = 160  # up to 2^39 microseconds, six days
# The key under which followers' fetches are counted: no API has it.
FOLLOWER_FETCH = -1
# Traffic of topics that are not there (any more).
NO_TOPIC = ""


_TRAFFIC = (
    "bytes_in",
    "bytes_out",
    "failed_fetches",
    "failed_produces",
    "fetches",
    "messages_in",
    "produces",
    "replication_bytes_in",
    "replication_bytes_out",
)


class TopicTraffic:
    """What went in and out of one topic on one broker."""

    __slots__ = _TRAFFIC

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.messages_in = 0
        self.produces = self.fetches = self.failed_produces = self.failed_fetches = 0
        self.replication_bytes_in = self.replication_bytes_out = 0


# What a request goes through, in this order, under Kafka's names. The last one is their sum: the time from its arrival
# to the last byte of its answer.
STAGES = (
    "RequestQueueTimeMs",
    "LocalTimeMs",
    "RemoteTimeMs",
    "ResponseQueueTimeMs",
    "ResponseSendTimeMs",
    "TotalTimeMs",
)


class StageTimes:
    """How long one stage took, over all requests of one API."""

    __slots__ = ("buckets", "count", "max_us", "sum_us")

    def __init__(self) -> None:
        self.count = self.sum_us = self.max_us = 0
        self.buckets = [0] * _BUCKETS

    def took(self, time_us: int) -> None:
        """One request more took this long."""
        self.count += 1
        self.sum_us += time_us
        if time_us > self.max_us:
            self.max_us = time_us
        self.buckets[_bucket(time_us)] += 1

    def percentile_us(self, part: float) -> float:
        """The middle of the bucket in which this part of all times ends."""
        wanted = part * self.count
        seen = 0
        for number, count in enumerate(self.buckets):
            seen += count
            if count and seen >= wanted:
                return min(_middle_us(number), self.max_us)
        return 0


class RequestCounters:
    """Requests of one API: how many, how large, and how long each of their stages took (empty: not measured)."""

    __slots__ = ("bytes", "bytes_max", "count", "stages")

    def __init__(self) -> None:
        self.count = self.bytes = self.bytes_max = 0
        self.stages: list[StageTimes] = []


def _bucket(time_us: int) -> int:
    """Four buckets for each power of two; times below 8 us have one each."""
    if time_us < 8:
        return time_us
    bits = time_us.bit_length()
    return min(_BUCKETS - 1, (bits << 2) - 8 + ((time_us >> (bits - 3)) & 3))


def _middle_us(bucket: int) -> float:
    if bucket < 8:
        return bucket
    bits, quarter = divmod(bucket + 8, 4)
    return (4.5 + quarter) * (1 << (bits - 3))


class BrokerMetrics:
    """The counters of one broker."""

    def __init__(self) -> None:
        self.requests: dict[int, RequestCounters] = {}
        self.topics: dict[str, TopicTraffic] = {}
        self.isr_shrinks = self.isr_expands = 0
        self.leader_elections = self.unclean_leader_elections = 0
        # What went to clients by `sendfile`; the driver counts it.
        self.sendfile_bytes = 0

    def requested(self, api_key: int, size_bytes: int) -> None:
        """A request has come."""
        counters = self.requests.get(api_key)
        if counters is None:
            counters = self.requests[api_key] = RequestCounters()
        counters.count += 1
        counters.bytes += size_bytes
        if size_bytes > counters.bytes_max:
            counters.bytes_max = size_bytes

    def answered(self, api_key: int, times_us: tuple[int, ...]) -> None:
        """A request has been answered; `times_us` says how long each of its STAGES but the last took."""
        counters = self.requests.get(api_key)
        if counters is None:
            counters = self.requests[api_key] = RequestCounters()
        stages = counters.stages
        if not stages:
            stages += [StageTimes() for _ in STAGES]
        for stage, time_us in zip(stages, (*times_us, sum(times_us)), strict=True):
            stage.took(time_us)

    def forget_topic(self, topic: str) -> None:
        """The topic is gone; what it added to the sums stays in them."""
        gone = self.topics.pop(topic, None)
        if gone is not None:
            rest = self.traffic(NO_TOPIC)
            for field in _TRAFFIC:
                setattr(rest, field, getattr(rest, field) + getattr(gone, field))

    def traffic(self, topic: str) -> TopicTraffic:
        """What to count a topic's traffic into; NO_TOPIC for names this broker does not hold: they have no limit."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTraffic()
        return found

    def partition_changed(self, old: PartitionImage, new: PartitionImage, broker_id: int) -> None:
        """The controller has changed a partition's leader, or its replicas in sync."""
        if new.leader != old.leader:
            if new.leader >= 0:
                self.leader_elections += 1
                self.unclean_leader_elections += new.leader not in old.isr
        elif new.leader == broker_id and len(new.isr) != len(old.isr):
            if len(new.isr) < len(old.isr):
                self.isr_shrinks += 1
            else:
                self.isr_expands += 1
