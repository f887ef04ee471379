"""A broker's metrics under Kafka's own names, as its JMX beans have them.

`read` turns what was counted (`BrokerMetrics`), and the state of the broker at that moment, into {bean: {attribute:
number}}: gauges have a `Value`, meters a `Count` and a `MeanRate` (per second since the broker started), histograms
`Count`, `Mean`, `Max` and percentiles, flushes those of a meter and `Mean` and `Max` in milliseconds. Kafka's
one-minute rates are not kept. What Kafka does not count has a name that begins with `ottla.`.

The controller's metrics are those of the broker that stands for it, and 0 elsewhere, so that the sum over all brokers
is right.
"""

from __future__ import annotations

from ottla.broker.core import BrokerCore
from ottla.broker.events import ClusterImage
from ottla.broker.metrics import FOLLOWER_FETCH, NO_TOPIC, STAGES, BrokerMetrics
from ottla.broker.partition import Topics
from ottla.protocol.messages import FETCH

Beans = dict[str, dict[str, float]]

_PERCENTILES = ((0.5, "50thPercentile"), (0.95, "95thPercentile"), (0.99, "99thPercentile"), (0.999, "999thPercentile"))
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


def read(core: BrokerCore, uptime_s: float, queued: int = 0) -> Beans:
    """All metrics of a broker: {bean: {attribute: number}}; `queued` requests wait at the driver."""
    beans: Beans = {}
    _read_requests(core.metrics, beans, uptime_s)
    _read_traffic(core.metrics, beans, uptime_s)
    beans["kafka.network:type=RequestChannel,name=RequestQueueSize"] = _value(
        queued + core.connections.queued_requests()
    )
    waiting = core.purgatory.sizes()
    for operation, kind in (("Produce", "PendingProduce"), ("Fetch", "PendingFetch")):
        bean = f"kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation={operation}"
        beans[bean] = _value(waiting.get(kind, 0))
    beans["ottla.network:type=SocketServer,name=SendfileBytesPerSec"] = _meter(core.metrics.sendfile_bytes, uptime_s)
    _read_partitions(core.topics, core.metrics, beans, uptime_s)
    sessions = core.replicas.fetch_sessions
    for name, number in (
        ("NumIncrementalFetchSessions", len(sessions)),
        ("NumIncrementalFetchPartitionsCached", sessions.partitions_kept()),
    ):
        beans[f"kafka.server:type=FetchSessionCache,name={name}"] = _value(number)
    flushes = core.directory.storage.write_back
    beans["kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs"] = {
        **_meter(flushes.flush_count, uptime_s),
        "Mean": flushes.flush_time_us / max(1, flushes.flush_count) / 1000,
        "Max": flushes.flush_time_us_max / 1000,
    }
    _read_controller(core.image, core.broker_id, core.metrics, beans, uptime_s)
    return beans


def _value(number: float) -> dict[str, float]:
    return {"Value": number}


def _meter(count: int, uptime_s: float) -> dict[str, float]:
    return {"Count": count, "MeanRate": count / uptime_s if uptime_s > 0 else 0.0}


def _read_requests(metrics: BrokerMetrics, beans: Beans, uptime_s: float) -> None:
    from ottla.protocol.apis import REQUESTS

    for api_key, counters in sorted(metrics.requests.items()):
        if api_key == FOLLOWER_FETCH:
            name = "FetchFollower"
        else:
            name = "FetchConsumer" if api_key == FETCH else REQUESTS[api_key].__name__.removesuffix("Request")
        bean = "kafka.network:type=RequestMetrics,name={},request=" + name
        beans[bean.format("RequestsPerSec")] = _meter(counters.count, uptime_s)
        sizes = {"Count": counters.count, "Mean": counters.bytes / max(1, counters.count), "Max": counters.bytes_max}
        beans[bean.format("RequestBytes")] = sizes
        for stage, took in zip(STAGES, counters.stages, strict=False):
            times: dict[str, float] = {
                "Count": took.count,
                "Mean": took.sum_us / took.count / 1000,
                "Max": took.max_us / 1000,
            }
            times.update({attribute: took.percentile_us(part) / 1000 for part, attribute in _PERCENTILES})
            beans[bean.format(stage)] = times


def _read_traffic(metrics: BrokerMetrics, beans: Beans, uptime_s: float) -> None:
    topics = metrics.topics
    for field, name in _TRAFFIC_BEANS:
        bean = f"kafka.server:type=BrokerTopicMetrics,name={name}"
        beans[bean] = _meter(sum(getattr(traffic, field) for traffic in topics.values()), uptime_s)
        if field not in _ALL_TOPICS_ONLY:
            for topic, traffic in topics.items():
                if topic == NO_TOPIC:
                    continue
                beans[f"{bean},topic={topic}"] = _meter(getattr(traffic, field), uptime_s)


def _read_partitions(topics: Topics, metrics: BrokerMetrics, beans: Beans, uptime_s: float) -> None:
    led = under_replicated = under_min_isr = at_min_isr = held = offline = 0
    for partitions in topics.values():
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
    beans["kafka.server:type=ReplicaManager,name=IsrShrinksPerSec"] = _meter(metrics.isr_shrinks, uptime_s)
    beans["kafka.server:type=ReplicaManager,name=IsrExpandsPerSec"] = _meter(metrics.isr_expands, uptime_s)


def _read_controller(
    image: ClusterImage, broker_id: int, metrics: BrokerMetrics, beans: Beans, uptime_s: float
) -> None:
    speaks = image.controller_id == broker_id
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
