"""What a broker core, the controller core and their drivers say to each other.

A broker meets clients and peers in the same way: typed requests on numbered connections. Requests to peers and to
the controller leave as `AskPeer` and `AskController` and come back as `PeerAnswered` and `ControllerAnswered`.
Records in requests are memoryviews of the frame; records in Fetch responses may be `FileSlice`s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, frozen=True)
class RequestReceived:
    """Event: a decoded request. One connection's requests are handled one at a time, in order, by the core.

    `listener` names the one it came in by; addresses in the answer are those of that listener.
    """

    connection_id: int
    correlation_id: int
    version: int
    client_id: str | None
    message: Any
    size: int = 0
    listener: str = ""


@dataclass(slots=True, frozen=True)
class ConnectionLost:
    """Event: the client is gone; answers still owed to it are dropped, what it asked for stays done."""

    connection_id: int


@dataclass(slots=True, frozen=True)
class PeerAnswered:
    """Event: a peer broker answered; `message` is None where it could not be reached or the answer was lost."""

    broker_id: int
    token: int
    message: Any


@dataclass(slots=True, frozen=True)
class ControllerAnswered:
    """Event: the controller answered; `message` is None where it could not be reached."""

    token: int
    message: Any


@dataclass(slots=True, frozen=True)
class ImagePublished:
    """Event (to brokers), output (of the controller): the whole cluster metadata as of now."""

    image: ClusterImage


@dataclass(slots=True, frozen=True)
class Respond:
    """Output: send this response; then the connection's next request is due."""

    connection_id: int
    correlation_id: int
    version: int
    message: Any


@dataclass(slots=True, frozen=True)
class HangUp:
    """Output: close this connection without sending anything more (`reason` goes to the log)."""

    connection_id: int
    reason: str


@dataclass(slots=True, frozen=True)
class Struck:
    """Output: a fault ends or freezes this broker here: `kind` is one of `faults.rule.CRASHES`.

    For "pause" what comes behind it in the outputs is carried out when the broker goes on, otherwise never.
    """

    kind: str
    rule_id: int


@dataclass(slots=True, frozen=True)
class LetGo:
    """Output: the controller lets this broker go, which had asked to; its core may be closed."""


@dataclass(slots=True, frozen=True)
class AskPeer:
    """Output: send this request to another broker."""

    broker_id: int
    token: int
    message: Any


@dataclass(slots=True, frozen=True)
class AskController:
    """Output: send this request to the controller."""

    token: int
    message: Any


@dataclass(slots=True, frozen=True)
class ControllerRequest:
    """Event (controller): a broker passes on an administrative request; answered by `ControllerResponse`."""

    broker_id: int
    token: int
    message: Any


@dataclass(slots=True, frozen=True)
class ControllerResponse:
    """Output (controller): the answer to a `ControllerRequest`."""

    broker_id: int
    token: int
    message: Any


@dataclass(slots=True, frozen=True)
class Endpoint:
    """Where clients of one listener reach a broker."""

    listener: str
    host: str
    port: int


@dataclass(slots=True, frozen=True)
class MoveLeader:
    """Message (controller): let another replica in sync lead, `broker_id` or any; an order of who runs the cluster.

    No API of Kafka's. The answer is the id of the leader, or a sentence why there is no other.
    """

    topic: str
    partition: int
    broker_id: int | None = None


@dataclass(slots=True, frozen=True)
class BrokerAddress:
    """Where clients reach a broker: `host` and `port` by its first listener, `endpoints` by those with names."""

    broker_id: int
    host: str
    port: int
    endpoints: tuple[Endpoint, ...] = ()

    def on(self, listener: str) -> tuple[str, int]:
        """Host and port for clients of this listener; those of the first one where the broker has none so named."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint.host, endpoint.port
        return self.host, self.port


@dataclass(slots=True, frozen=True)
class PartitionImage:
    """One partition: who leads it (-1: nobody can), who holds it, who is in sync.

    `leader_epoch` grows with every change of the leader, `partition_epoch` with every change at all.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0


@dataclass(slots=True, frozen=True)
class TopicImage:
    """One topic: its id (16 bytes), partitions by number, and settings under Kafka's names."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True, frozen=True)
class ClusterImage:
    """Everything a broker knows of the cluster; replaced whole, never changed. `version` only grows.

    `brokers` are those that are alive. `broker_epochs`: which start of each broker the controller knows of, those
    that are not alive included; an image that does not name a broker's own start is not meant for it.
    `broker_configs` are settings changed while the cluster runs: under "" for all brokers, under an id for that one.
    """

    version: int
    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerAddress, ...]
    topics: dict[str, TopicImage]
    broker_epochs: dict[int, int] = field(default_factory=dict)
    broker_configs: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
