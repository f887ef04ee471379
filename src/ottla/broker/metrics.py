"""What a broker counts, and how it is told: under Kafka's own names, as its JMX beans have them.

`BrokerMetrics` is what the rest of the broker counts into: plain integers, a few dozen nanoseconds each. `read` turns
that, and what the core is asked at that moment, into {bean: {attribute: number}}: gauges have a `Value`, meters a
`Count` and a `MeanRate` (per second since the broker started), histograms `Count`, `Mean`, `Max` and percentiles,
flushes those of a meter and `Mean` and `Max` in milliseconds. Kafka's one-minute rates are not kept. How long requests
take is measured by the driver, for a core has no clock; percentiles come from buckets a quarter of a power of two wide.

What the controller counts is told by the broker that speaks for it, so that the sum over all brokers is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis import FETCH
from ottla.broker.events import PartitionImage

if TYPE_CHECKING:
    from ottla.broker.core import BrokerCore

Beans = dict[str, dict[str, float]]

_BUCKETS = 160  # up to 2^39 microseconds, six days
_PERCENTILES = ((0.5, "50thPercentile"), (0.95, "95thPercentile"), (0.99, "99thPercentile"), (0.999, "999thPercentile"))
# The key under which followers' fetches are counted: no API has it.
FOLLOWER_FETCH = -1
# Traffic of topics that are not there (any more).
NO_TOPIC = ""


class TopicTraffic:
    """What went in and out of one topic on one broker."""

    __slots__ = (
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

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.messages_in = 0
        self.produces = self.fetches = self.failed_produces = self.failed_fetches = 0
        self.replication_bytes_in = self.replication_bytes_out = 0


_TRAFFIC_BEANS = (
    ("bytes_in", "BytesInPerSec"),
    ("bytes_out", "BytesOutPerSec"),
    ("messages_in", "MessagesInPerSec"),
    ("produces", "TotalProduceRequestsPerSec"),
    ("fetches", "TotalFetchRequestsPerSec"),
    ("failed_produces", "FailedProduceRequestsPerSec"),
    ("failed_fetches", "FailedFetchRequestsPerSec"),
    ("replication_bytes_in", "ReplicationBytesInPerSec"),
    ("replication_bytes_out", "ReplicationBytesOutPerSec"),
)
_ALL_TOPICS_ONLY = ("replication_bytes_in", "replication_bytes_out")


class RequestCounters:
    """Requests of one API: how many, how large, and how long they took."""

    __slots__ = ("buckets", "bytes", "bytes_max", "count", "timed", "total_us", "total_us_max")

    def __init__(self) -> None:
        self.count = self.bytes = self.bytes_max = 0
        self.timed = self.total_us = self.total_us_max = 0
        self.buckets = [0] * _BUCKETS

    def percentile_us(self, part: float) -> float:
        """The middle of the bucket in which this part of all times ends."""
        wanted = part * self.timed
        seen = 0
        for number, count in enumerate(self.buckets):
            seen += count
            if count and seen >= wanted:
                return min(_middle_us(number), self.total_us_max)
        return 0


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

    def requested(self, api_key: int, size_bytes: int) -> None:
        """A request has come."""
        counters = self.requests.get(api_key)
        if counters is None:
            counters = self.requests[api_key] = RequestCounters()
        counters.count += 1
        counters.bytes += size_bytes
        if size_bytes > counters.bytes_max:
            counters.bytes_max = size_bytes

    def answered(self, api_key: int, time_us: int) -> None:
        """A request has been answered, this long after it came."""
        counters = self.requests.get(api_key)
        if counters is None:
            counters = self.requests[api_key] = RequestCounters()
        counters.timed += 1
        counters.total_us += time_us
        if time_us > counters.total_us_max:
            counters.total_us_max = time_us
        counters.buckets[_bucket(time_us)] += 1

    def forget_topic(self, topic: str) -> None:
        """The topic is gone; what it added to the sums stays in them."""
        gone = self.topics.pop(topic, None)
        if gone is not None:
            rest = self.traffic(NO_TOPIC)
            for field, _ in _TRAFFIC_BEANS:
                setattr(rest, field, getattr(rest, field) + getattr(gone, field))

    def traffic(self, topic: str) -> TopicTraffic:
        """What to count a topic's traffic into; NO_TOPIC for names this broker does not know, which have no end."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTraffic()
        return found

    def partition_changed(self, old: PartitionImage, new: PartitionImage, broker_id: int) -> None:
        """The controller has changed who leads a partition, or who is in sync."""
        if new.leader != old.leader:
            if new.leader >= 0:
                self.leader_elections += 1
                self.unclean_leader_elections += new.leader not in old.isr
        elif new.leader == broker_id and len(new.isr) != len(old.isr):
            if len(new.isr) < len(old.isr):
                self.isr_shrinks += 1
            else:
                self.isr_expands += 1


def read(core: BrokerCore, uptime_s: float, queued: int = 0) -> Beans:
    """All metrics of a broker: {bean: {attribute: number}}; `queued` requests wait at the driver."""
    beans: Beans = {}
    _read_requests(core, beans, uptime_s)
    _read_traffic(core, beans, uptime_s)
    beans["kafka.network:type=RequestChannel,name=RequestQueueSize"] = _value(queued + core.queued_requests())
    waiting = core.purgatory.sizes()
    for operation, kind in (("Produce", "PendingProduce"), ("Fetch", "PendingFetch")):
        bean = f"kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation={operation}"
        beans[bean] = _value(waiting.get(kind, 0))
    _read_partitions(core, beans, uptime_s)
    sessions = core.fetch_sessions
    for name, number in (
        ("NumIncrementalFetchSessions", len(sessions)),
        ("NumIncrementalFetchPartitionsCached", sessions.partitions_kept()),
    ):
        beans[f"kafka.server:type=FetchSessionCache,name={name}"] = _value(number)
    flushes = core.storage.write_back
    beans["kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs"] = {
        **_meter(flushes.flush_count, uptime_s),
        "Mean": flushes.flush_time_us / max(1, flushes.flush_count) / 1000,
        "Max": flushes.flush_time_us_max / 1000,
    }
    _read_controller(core, beans, uptime_s)
    return beans


def _value(number: float) -> dict[str, float]:
    return {"Value": number}


def _meter(count: int, uptime_s: float) -> dict[str, float]:
    return {"Count": count, "MeanRate": count / uptime_s if uptime_s > 0 else 0.0}


def _read_requests(core: BrokerCore, beans: Beans, uptime_s: float) -> None:
    from ottla.protocol.apis import REQUESTS

    for api_key, counters in sorted(core.metrics.requests.items()):
        if api_key == FOLLOWER_FETCH:
            name = "FetchFollower"
        else:
            name = "FetchConsumer" if api_key == FETCH else REQUESTS[api_key].__name__.removesuffix("Request")
        bean = "kafka.network:type=RequestMetrics,name={},request=" + name
        beans[bean.format("RequestsPerSec")] = _meter(counters.count, uptime_s)
        sizes = {"Count": counters.count, "Mean": counters.bytes / max(1, counters.count), "Max": counters.bytes_max}
        beans[bean.format("RequestBytes")] = sizes
        if counters.timed:
            times: dict[str, float] = {
                "Count": counters.timed,
                "Mean": counters.total_us / counters.timed / 1000,
                "Max": counters.total_us_max / 1000,
            }
            times.update({attribute: counters.percentile_us(part) / 1000 for part, attribute in _PERCENTILES})
            beans[bean.format("TotalTimeMs")] = times


def _read_traffic(core: BrokerCore, beans: Beans, uptime_s: float) -> None:
    topics = core.metrics.topics
    for field, name in _TRAFFIC_BEANS:
        bean = f"kafka.server:type=BrokerTopicMetrics,name={name}"
        beans[bean] = _meter(sum(getattr(traffic, field) for traffic in topics.values()), uptime_s)
        if field not in _ALL_TOPICS_ONLY:
            for topic, traffic in topics.items():
                if topic == NO_TOPIC:
                    continue
                beans[f"{bean},topic={topic}"] = _meter(getattr(traffic, field), uptime_s)


def _read_partitions(core: BrokerCore, beans: Beans, uptime_s: float) -> None:
    led = under_replicated = under_min_isr = at_min_isr = held = offline = 0
    for partitions in core.topics.values():
        for partition in partitions.values():
            held += 1
            offline += partition.log is None
            if partition.is_leader:
                led += 1
                in_sync, wanted = len(partition.isr), partition.settings.min_insync_replicas
                under_replicated += in_sync < len(partition.replicas)
                under_min_isr += in_sync < wanted
                at_min_isr += in_sync == wanted
    for name, number in (
        ("PartitionCount", held),
        ("LeaderCount", led),
        ("UnderReplicatedPartitions", under_replicated),
        ("UnderMinIsrPartitionCount", under_min_isr),
        ("AtMinIsrPartitionCount", at_min_isr),
        ("OfflineReplicaCount", offline),
    ):
        beans[f"kafka.server:type=ReplicaManager,name={name}"] = _value(number)
    metrics = core.metrics
    beans["kafka.server:type=ReplicaManager,name=IsrShrinksPerSec"] = _meter(metrics.isr_shrinks, uptime_s)
    beans["kafka.server:type=ReplicaManager,name=IsrExpandsPerSec"] = _meter(metrics.isr_expands, uptime_s)


def _read_controller(core: BrokerCore, beans: Beans, uptime_s: float) -> None:
    image, metrics = core.image, core.metrics
    speaks = image.controller_id == core.broker_id
    partitions = [partition for topic in image.topics.values() for partition in topic.partitions]
    for name, number in (
        ("ActiveControllerCount", 1),
        ("ActiveBrokerCount", len(image.brokers)),
        ("GlobalTopicCount", len(image.topics)),
        ("GlobalPartitionCount", len(partitions)),
        ("OfflinePartitionsCount", sum(partition.leader < 0 for partition in partitions)),
    ):
        beans[f"kafka.controller:type=KafkaController,name={name}"] = _value(number if speaks else 0)
    elections = metrics.leader_elections if speaks else 0
    unclean = metrics.unclean_leader_elections if speaks else 0
    stats = "kafka.controller:type=ControllerStats,name="
    beans[f"{stats}LeaderElectionRateAndTimeMs"] = _meter(elections, uptime_s)
    beans[f"{stats}UncleanLeaderElectionsPerSec"] = _meter(unclean, uptime_s)
