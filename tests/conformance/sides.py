"""The two clusters a producer is held against: the embedded one, and three nodes of Apache Kafka.

Both have three brokers with ids 1 to 3 and the same handles, so that each expectation is written once. What only one
of them can do is an expected failure at the test, with its reason.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any, Protocol

from tools.apache_kafka import QUICK_FAILOVER, ApacheKafka
from tools.ports import free_ports

import ottla
from ottla import Listener
from ottla.cluster.cluster import Cluster
from ottla.errors import KafkaError, Unreachable
from ottla.protocol.error_codes import ErrorCode

from ..papers import Papers
from .lossy_proxy import LossyProxy
from .ways_in import PROTOCOLS, apache_settings, apache_users, embedded_listeners

BROKERS = 3
_PATIENCE_S = 60
# Otherwise both clusters elect the preferred leaders every five minutes, in the middle of any test.
_LEADERS_STAY: dict[str, Any] = {"auto.leader.rebalance.enable": "false"}


class Losses(Protocol):
    """Acknowledgements that are lost for the length of a `with`."""

    fired: Any

    def __enter__(self) -> Any: ...
    def __exit__(self, *_: Any) -> None: ...


class Side:
    """What the tests ask of either cluster.

    `lossy_servers` are the addresses at which acknowledgements can be lost, `noted_servers` those of `proxy`, which
    does wrong when it is told to, and remembers what clients asked.
    """

    name: str
    bootstrap_servers: str
    lossy_servers: str
    noted_servers: str
    proxy: LossyProxy

    def bootstrap_servers_of(self, listener: str) -> str:
        """The addresses of a listener: PLAINTEXT, or one of `ways_in.PROTOCOLS`."""
        raise NotImplementedError

    def create_topic(self, name: str, partitions: int, replication_factor: int, **configs: str) -> None:
        """Make a topic that can be used at once (configs with underscores for dots)."""
        with ottla.Admin(self.bootstrap_servers) as admin:
            settings = {key.replace("_", "."): value for key, value in configs.items()}
            admin.create_topics(name, partitions=partitions, replication_factor=replication_factor, configs=settings)
            # Apache Kafka names a leader before that has opened its log, and drops what comes in between with acks=0.
            # An answer about offsets is the leader's own, and asked for until it comes; a broker that has not heard of
            # the topic yet may be asked who leads it.
            give_up_s = time.monotonic() + _PATIENCE_S
            while True:
                try:
                    admin.end_offsets(name)
                    return
                except KafkaError as error:
                    if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or time.monotonic() > give_up_s:
                        raise

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads the partition."""
        with ottla.Admin(self.bootstrap_servers) as admin:
            leader = admin.describe(topic).partitions[partition].leader
        assert leader is not None
        return leader

    def await_in_sync(self, topic: str, replicas: int) -> None:
        """Wait until every partition of the topic has so many replicas in sync."""
        give_up_s = time.monotonic() + _PATIENCE_S
        with ottla.Admin(self.bootstrap_servers) as admin:
            while True:
                places = _described(admin, topic)
                if places and all(len(place.isr) == replicas for place in places):
                    return
                assert time.monotonic() < give_up_s, f"{topic} has not {replicas} replicas in sync: {places}"

    def await_readable(self, topic: str, records: int) -> None:
        """Wait until readers may see so many records; with acks of 0 or 1 that is later than the acknowledgement."""
        give_up_s = time.monotonic() + _PATIENCE_S
        with ottla.Admin(self.bootstrap_servers) as admin:
            while sum(ends := admin.end_offsets(topic).values()) < records:
                assert time.monotonic() < give_up_s, f"{topic} ends at {ends}"

    def kill(self, broker_id: int) -> None:
        """End a broker without notice."""
        raise NotImplementedError

    def start(self, broker_id: int) -> None:
        """Start a killed broker again."""
        raise NotImplementedError

    def pause(self, broker_id: int) -> None:
        """Freeze a broker."""
        raise NotImplementedError

    def resume(self, broker_id: int) -> None:
        """Let a frozen broker go on."""
        raise NotImplementedError

    def losing_acks(self, topic: str, *, every: int, times: int) -> AbstractContextManager[Losses]:
        """Lose the answers to every so-many-th Produce request, at `lossy_servers`."""
        raise NotImplementedError

    def close(self) -> None:
        """End the cluster."""
        raise NotImplementedError


def await_topic(producer: ottla.Producer, topic: str) -> None:
    """Wait until a producer knows the topic, however short its `max.block.ms` is."""
    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            producer.partitions_for(topic)
            return
        except (KafkaError, Unreachable):
            assert time.monotonic() < give_up_s


def _described(admin: ottla.Admin, topic: str) -> Any:
    try:
        return admin.describe(topic).partitions
    except KafkaError:
        return ()


class Embedded(Side):
    """Three embedded brokers."""

    name = "embedded"

    def __init__(self, papers: Papers) -> None:
        self.proxy = LossyProxy(BROKERS)
        self._ports = free_ports(BROKERS)
        noted = Listener(port=self._ports[0], advertised_port=self.proxy.ports[0])
        listeners = {**embedded_listeners(papers), "NOTED": noted}
        self._cluster = Cluster(brokers=BROKERS, listeners=listeners, settings=_LEADERS_STAY)
        self.proxy.start(",".join(f"127.0.0.1:{port}" for port in self._ports))
        self.noted_servers = ",".join(self.proxy.addresses)
        self.bootstrap_servers = self.lossy_servers = self._cluster.bootstrap_servers
        self.bootstrap_servers_of = self._cluster.bootstrap_servers_of
        self.kill = self._cluster.kill
        self.start = self._cluster.start
        self.pause = self._cluster.pause
        self.resume = self._cluster.resume

    def losing_acks(self, topic: str, *, every: int, times: int) -> AbstractContextManager[Losses]:
        return self._cluster.faults.lose_ack(topic=topic, every=every, times=times)

    def close(self) -> None:
        self.proxy.close()
        self._cluster.close()


class Apache(Side):
    """Three nodes of Apache Kafka, each broker and controller; one listener stands behind a `LossyProxy`."""

    name = "apache"

    def __init__(self, papers: Papers) -> None:
        self.proxy = LossyProxy(BROKERS)
        self._kafka = ApacheKafka(
            BROKERS,
            heap_mb=384,
            listeners={"LOSSY": "PLAINTEXT", **PROTOCOLS},
            advertised={"LOSSY": self.proxy.addresses},
            settings=QUICK_FAILOVER | _LEADERS_STAY | apache_settings(papers),
            format_arguments=apache_users(),
        )
        try:
            self._kafka.start()
            self.proxy.start(self._kafka.bootstrap_servers_of("LOSSY"))
        except BaseException:
            self.close()
            raise
        self.bootstrap_servers = self._kafka.bootstrap_servers
        self.bootstrap_servers_of = self._kafka.bootstrap_servers_of
        self.lossy_servers = self.noted_servers = ",".join(self.proxy.addresses)

    def kill(self, broker_id: int) -> None:
        self._kafka.kill(broker_id)

    def start(self, broker_id: int) -> None:
        self._kafka.start(broker_id)

    def pause(self, broker_id: int) -> None:
        self._kafka.pause(broker_id)

    def resume(self, broker_id: int) -> None:
        self._kafka.resume(broker_id)

    def losing_acks(self, topic: str, *, every: int, times: int) -> AbstractContextManager[Losses]:
        return self.proxy.lose(every, times)

    def close(self) -> None:
        self.proxy.close()
        self._kafka.stop()
