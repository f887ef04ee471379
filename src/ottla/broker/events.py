"""What a broker core, the controller core and their drivers exchange.

To a broker, clients and other brokers (peers) are alike: typed requests on numbered connections. Requests to peers and
to the controller leave as `AskPeer` and `AskController` and come back as `PeerAnswered` and `ControllerAnswered`.
Records in requests are memoryviews of the frame; records in Fetch responses may be `FileSlice`s.

All but `ClientContext` are values: equal where their fields are, never changed once made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.value import Value

# The user of a connection that is not authenticated (Kafka's `User:ANONYMOUS`).
ANONYMOUS = "ANONYMOUS"
# (type, name) of what a quota is for, by type; a name of None stands for all that have no quota of their own (KIP-546).
QuotaEntity = tuple[tuple[str, str | None], ...]


class ClientContext:
    """Who is at the other end of a connection, as far as is known; one object for all requests of the connection.

    `user` as authenticated, else ANONYMOUS. `software_name` and `software_version` are known once the client has asked
    for ApiVersions (KIP-511), `producer_id` once it has sent a numbered batch (-1 before).
    """

    __slots__ = ("host", "port", "producer_id", "software_name", "software_version", "user")

    def __init__(self, user: str = ANONYMOUS, host: str = "", port: int = 0) -> None:
        self.user = user
        self.host = host
        self.port = port
        self.software_name = self.software_version = ""
        self.producer_id = -1


class RequestReceived(Value):
    """Event: a decoded request. One connection's requests are handled one at a time, in order, by the core.

    `listener` is the one it came in by; addresses in the answer are those of that listener. `client` is None where
    nothing is known of the client.
    """

    __slots__ = (
        "client",
        "client_id",
        "connection_id",
        "correlation_id",
        "listener",
        "message",
        "size",
        "version",
    )

    def __init__(
        self,
        connection_id: int,
        correlation_id: int,
        version: int,
        client_id: str | None,
        message: Any,
        size: int = 0,
        listener: str = "",
        client: ClientContext | None = None,
    ) -> None:
        self.connection_id = connection_id
        self.correlation_id = correlation_id
        self.version = version
        self.client_id = client_id
        self.message = message
        self.size = size
        self.listener = listener
        self.client = client


class ConnectionLost(Value):
    """Event: the client is gone; its answers are dropped, what its requests have done stays done."""

    __slots__ = ("connection_id",)

    def __init__(self, connection_id: int) -> None:
        self.connection_id = connection_id


class PeerAnswered(Value):
    """Event: a peer broker answered; `message` is None where it could not be reached or the answer was lost."""

    __slots__ = (
        "broker_id",
        "message",
        "token",
    )

    def __init__(self, broker_id: int, token: int, message: Any) -> None:
        self.broker_id = broker_id
        self.token = token
        self.message = message


class ControllerAnswered(Value):
    """Event: the controller answered; `message` is None where it could not be reached."""

    __slots__ = (
        "message",
        "token",
    )

    def __init__(self, token: int, message: Any) -> None:
        self.token = token
        self.message = message


class ImagePublished(Value):
    """Event (to brokers), output (of the controller): the whole cluster metadata as of now."""

    __slots__ = ("image",)

    def __init__(self, image: ClusterImage) -> None:
        self.image = image


class Respond(Value):
    """Output: send this response; then the connection's next request is due."""

    __slots__ = (
        "connection_id",
        "correlation_id",
        "message",
        "version",
    )

    def __init__(self, connection_id: int, correlation_id: int, version: int, message: Any) -> None:
        self.connection_id = connection_id
        self.correlation_id = correlation_id
        self.version = version
        self.message = message


class HangUp(Value):
    """Output: close this connection without sending anything more (`reason` goes to the log)."""

    __slots__ = (
        "connection_id",
        "reason",
    )

    def __init__(self, connection_id: int, reason: str) -> None:
        self.connection_id = connection_id
        self.reason = reason


class FaultFired(Value):
    """Output: a fault ends or freezes this broker here: `kind` is one of `faults.fault.OF_BROKERS`.

    For "pause" what comes behind it in the outputs is carried out when the broker goes on, otherwise never.
    """

    __slots__ = (
        "fault_id",
        "kind",
    )

    def __init__(self, kind: str, fault_id: int) -> None:
        self.kind = kind
        self.fault_id = fault_id


class Released(Value):
    """Event: the fault with this id is healed; what it held back goes on."""

    __slots__ = ("fault_id",)

    def __init__(self, fault_id: int) -> None:
        self.fault_id = fault_id


class LetGo(Value):
    """Output: the controller agrees that this broker shuts down, as it had asked; its core may be closed."""

    __slots__ = ()


class Halted(Value):
    """Output: the broker's only log directory has failed (`reason`), and so has the broker: nothing comes behind it."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class BrokerHeartbeat(Value):
    """A broker's heartbeat to the controller: Kafka's message, and the id of the folder of its logs (`directory_id`).

    Kafka's brokers send the id in their registration (KIP-858); here the first heartbeat of a start registers it.
    """

    __slots__ = (
        "directory_id",
        "heartbeat",
    )

    def __init__(self, heartbeat: Any, directory_id: str) -> None:
        self.heartbeat = heartbeat
        self.directory_id = directory_id


class AskPeer(Value):
    """Output: send this request to another broker."""

    __slots__ = (
        "broker_id",
        "message",
        "token",
    )

    def __init__(self, broker_id: int, token: int, message: Any) -> None:
        self.broker_id = broker_id
        self.token = token
        self.message = message


class AskController(Value):
    """Output: send this request to the controller."""

    __slots__ = (
        "message",
        "token",
    )

    def __init__(self, token: int, message: Any) -> None:
        self.token = token
        self.message = message


class ControllerRequest(Value):
    """Event (controller): a broker passes on an administrative request; answered by `ControllerResponse`."""

    __slots__ = (
        "broker_id",
        "message",
        "token",
    )

    def __init__(self, broker_id: int, token: int, message: Any) -> None:
        self.broker_id = broker_id
        self.token = token
        self.message = message


class ControllerResponse(Value):
    """Output (controller): the answer to a `ControllerRequest`."""

    __slots__ = (
        "broker_id",
        "message",
        "token",
    )

    def __init__(self, broker_id: int, token: int, message: Any) -> None:
        self.broker_id = broker_id
        self.token = token
        self.message = message


class Endpoint(Value):
    """Where clients of one listener reach a broker."""

    __slots__ = (
        "host",
        "listener",
        "port",
    )

    def __init__(self, listener: str, host: str, port: int) -> None:
        self.listener = listener
        self.host = host
        self.port = port


class MoveLeader(Value):
    """Message (controller): let another replica in sync lead, `broker_id` or any; ordered by the cluster's user.

    No API of Kafka's. The answer is the id of the leader, or a sentence why there is no other.
    """

    __slots__ = (
        "broker_id",
        "partition",
        "topic",
    )

    def __init__(self, topic: str, partition: int, broker_id: int | None = None) -> None:
        self.topic = topic
        self.partition = partition
        self.broker_id = broker_id


class BrokerAddress(Value):
    """Where clients reach a broker: `host` and `port` by its first listener, `endpoints` by those with names.

    `rack`: its `broker.rack`, None where it has none.
    """

    __slots__ = (
        "broker_id",
        "endpoints",
        "host",
        "port",
        "rack",
    )

    def __init__(
        self, broker_id: int, host: str, port: int, endpoints: tuple[Endpoint, ...] = (), rack: str | None = None
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.endpoints = endpoints
        self.rack = rack

    def on(self, listener: str) -> tuple[str, int]:
        """Host and port for clients of this listener; those of the first one where the broker has none so named."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint.host, endpoint.port
        return self.host, self.port


class PartitionImage(Value):
    """One partition: its leader (-1: there can be none), its replicas, and those in sync.

    `leader_epoch` grows with every change of the leader, `partition_epoch` with every change at all. While replicas
    are moved (KIP-455), those that come are in `adding` and those that will go in `removing`; both are in `replicas`.
    """

    __slots__ = (
        "adding",
        "isr",
        "leader",
        "leader_epoch",
        "partition_epoch",
        "removing",
        "replicas",
    )

    def __init__(
        self,
        leader: int,
        leader_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        partition_epoch: int = 0,
        adding: tuple[int, ...] = (),
        removing: tuple[int, ...] = (),
    ) -> None:
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.replicas = replicas
        self.isr = isr
        self.partition_epoch = partition_epoch
        self.adding = adding
        self.removing = removing

    @property
    def is_moving(self) -> bool:
        """Whether its replicas are being moved."""
        return bool(self.adding or self.removing)


class TopicImage(Value):
    """One topic: its id (16 bytes), partitions by number, and settings under Kafka's names."""

    __slots__ = (
        "configs",
        "name",
        "partitions",
        "topic_id",
    )

    def __init__(
        self,
        name: str,
        topic_id: bytes,
        partitions: tuple[PartitionImage, ...],
        configs: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions
        self.configs = configs


class ImageChanges(Value):
    """What is new in an image since the one with `from_version`: by name of the topic, the partitions that differ.

    None stands for a topic that is new, gone, or differs in anything else.
    """

    __slots__ = ("from_version", "topics")

    def __init__(self, from_version: int, topics: dict[str, tuple[int, ...] | None]) -> None:
        self.from_version = from_version
        self.topics = topics


class ClusterImage(Value):
    """Everything a broker knows of the cluster; replaced whole, never changed. `version` only grows.

    `brokers` are those that are alive. `broker_epochs`: the newest start of each broker that the controller knows,
    those that are not alive included; a broker ignores an image that does not have its own start. `broker_configs` are
    settings changed while the cluster runs: under "" for all brokers, under an id for that one. `client_metrics` are
    subscriptions to clients' metrics by name (KIP-714), `quotas` the quotas of each entity. `changes` says which topics
    differ from those of the image before; None where that is not known.
    """

    __slots__ = (
        "broker_configs",
        "broker_epochs",
        "brokers",
        "changes",
        "client_metrics",
        "cluster_id",
        "controller_id",
        "quotas",
        "topics",
        "version",
    )

    def __init__(
        self,
        version: int,
        cluster_id: str,
        controller_id: int,
        brokers: tuple[BrokerAddress, ...],
        topics: Mapping[str, TopicImage],
        broker_epochs: dict[int, int] | None = None,
        broker_configs: dict[str, tuple[tuple[str, str], ...]] | None = None,
        changes: ImageChanges | None = None,
        client_metrics: dict[str, tuple[tuple[str, str], ...]] | None = None,
        quotas: dict[QuotaEntity, dict[str, float]] | None = None,
    ) -> None:
        self.version = version
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = brokers
        self.topics = topics
        self.changes = changes
        self.broker_epochs: dict[int, int] = {} if broker_epochs is None else broker_epochs
        self.broker_configs: dict[str, tuple[tuple[str, str], ...]] = {} if broker_configs is None else broker_configs
        self.client_metrics: dict[str, tuple[tuple[str, str], ...]] = {} if client_metrics is None else client_metrics
        self.quotas: dict[QuotaEntity, dict[str, float]] = {} if quotas is None else quotas
