"""All that an API handler may use of its broker.

A handler gets a request, looks at the partitions and the image, asks coordinators or the controller, and answers the
request once. Where it must wait it puts something into the purgatory that answers later.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.broker.connections import Cancellable, Connection, Connections
from ottla.broker.coordinators import Coordinators
from ottla.broker.events import ANONYMOUS, BrokerAddress, ClusterImage, QuotaEntity
from ottla.broker.metrics import NO_TOPIC, BrokerMetrics, TopicTraffic
from ottla.broker.outbox import Answered, Outbox
from ottla.broker.purgatory import Purgatory
from ottla.broker.refused import Refused
from ottla.broker.replicas import Replicas
from ottla.broker.request import Request
from ottla.broker.request_channel import RequestChannel, Waiting
from ottla.broker.wall_clock import WallClock

if TYPE_CHECKING:
    # Loaded when a client asks for them; most clusters never see any.
    from ottla.broker.client_quotas import ClientQuotas
    from ottla.broker.client_telemetry import ClientTelemetry
    from ottla.broker.groups.coordinator import GroupCoordinator
    from ottla.broker.transactions.coordinator import TransactionCoordinator
    from ottla.broker.transactions.verification import Verification


class Muting:
    """A connection whose next request waits until this expires."""

    __slots__ = ("_connection", "_connections", "bucket")

    def __init__(self, connections: Connections, connection: Connection) -> None:
        self.bucket = -1
        self._connections = connections
        self._connection = connection

    def expire(self, now_us: int) -> None:
        """Handle its next request."""
        self._connections.unmute(self._connection)


class BrokerPort:
    """The broker that a handler works for.

    `topics`: the partitions held here, by topic and index. `settings` follows what is changed while the broker runs,
    `static_settings` is as it was started. `purgatory`: what waits for something or for its deadline.
    """

    __slots__ = (
        "_channel",
        "_client_telemetry",
        "_clock",
        "_connections",
        "_coordinators",
        "_metrics",
        "_outbox",
        "_replicas",
        "_rng",
        "broker_id",
        "fetch_sessions",
        "purgatory",
        "quotas",
        "settings",
        "static_settings",
        "topic_ids",
        "topics",
    )

    def __init__(
        self,
        replicas: Replicas,
        coordinators: Coordinators,
        channel: RequestChannel,
        connections: Connections,
        purgatory: Purgatory,
        outbox: Outbox,
        clock: WallClock,
        metrics: BrokerMetrics,
        rng: Random,
    ) -> None:
        self.broker_id = replicas.broker_id
        self.settings = replicas.settings
        self.static_settings = replicas.static_settings
        self.topics = replicas.topics
        self.topic_ids = replicas.topic_ids
        self.fetch_sessions = replicas.fetch_sessions
        self.purgatory = purgatory
        self._replicas = replicas
        self._coordinators = coordinators
        self._channel = channel
        self._connections = connections
        self._outbox = outbox
        self._clock = clock
        self._metrics = metrics
        self._rng = rng
        # None while there are no quotas.
        self.quotas: ClientQuotas | None = None
        self._client_telemetry: ClientTelemetry | None = None

    # Answers.

    def answer(self, request: Request, message: Any, now_us: int) -> None:
        """Give a request its answer, once."""
        self._channel.answer(request, message, now_us)

    def records_stored(self, request: Request, stored: tuple[tuple[str, int], ...], now_us: int) -> None:
        """The records of a request are in the log of these partitions; to be called before the answer."""
        self._channel.records_stored(request, stored, now_us)

    def park(self, request: Request, waiter: Cancellable) -> None:
        """Let `waiter` be cancelled when the request's connection is lost."""
        self._connections.park(request.connection_id, waiter)

    def throttle(self, key: str, request: Request, size: int, now_us: int) -> int:
        """So many bytes count for a quota: the milliseconds for which the client's next request has to wait (KIP-219).

        To be called before the request is answered, where there are quotas.
        """
        if self.quotas is None:
            return 0
        client = request.client
        user = ANONYMOUS if client is None else client.user
        throttle_ms = self.quotas.used(key, user, request.client_id or "", size, now_us)
        if throttle_ms:
            connection = self._connections.mute(request.connection_id)
            if connection is not None:
                self.purgatory.add(Muting(self._connections, connection), now_us + throttle_ms * 1000)
        return throttle_ms

    def take_quotas(self, quotas: dict[QuotaEntity, dict[str, float]]) -> None:
        """Hold clients to these quotas from now on."""
        if not quotas:
            self.quotas = None
            return
        if self.quotas is None:
            from ottla.broker.client_quotas import ClientQuotas

            self.quotas = ClientQuotas(self.static_settings)
        self.quotas.take(quotas)

    def hang_up(self, request: Request, reason: str) -> None:
        """End the request's connection instead of answering."""
        self._connections.hang_up(request.connection_id, reason)

    def wake(self, waiting: Waiting) -> None:
        """Let a request that waits look again once the one at hand has been dealt with."""
        self._channel.wake(waiting)

    # Others.

    def ask_controller(self, message: Any, answered: Answered) -> None:
        """Call `answered(answer, now)` with the controller's answer; None: it cannot be reached."""
        self._outbox.ask_controller(message, answered)

    def pass_on(self, request: Request, unreachable: Callable[[Any], Any]) -> None:
        """Answer the request with what the controller says, or with `unreachable(message)`."""

        def answered(message: Any, now_us: int) -> None:
            self.answer(request, message if message is not None else unreachable(request.message), now_us)

        self._outbox.ask_controller(request.message, answered)

    @property
    def groups(self) -> GroupCoordinator:
        """The groups coordinated here."""
        return self._coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transactions coordinated here."""
        return self._coordinators.transactions

    @property
    def verification(self) -> Verification:
        """Asks the coordinators of transactions for the partitions led here."""
        return self._coordinators.verification

    @property
    def client_telemetry(self) -> ClientTelemetry:
        """What clients push of their metrics."""
        if self._client_telemetry is None:
            from ottla.broker.client_telemetry import ClientTelemetry

            self._client_telemetry = ClientTelemetry(self._rng, self.static_settings.telemetry_max_bytes)
        return self._client_telemetry

    # The cluster, and what this broker holds of it.

    @property
    def image(self) -> ClusterImage:
        """The cluster as the controller published it last."""
        return self._replicas.image

    def why_not_here(self, topic: str | None, index: int) -> Refused:
        """Why a partition is refused that this broker does not lead; topic None: asked for by an unknown id."""
        return self._replicas.why_not_here(topic, index)

    def leader_of(self, topic: str, index: int) -> tuple[int, int, BrokerAddress | None]:
        """The leader's id, its epoch, and where it is; (-1, -1, None) where that is not known."""
        return self._replicas.leader_of(topic, index)

    def heard_from_follower(self, broker_id: int, now_us: int) -> None:
        """A Fetch of this follower has come."""
        self._replicas.heard_from_follower(broker_id, now_us)

    def disk_space(self) -> tuple[str, int, int]:
        """The folder of the logs, its bytes in all and those that are free; OSError."""
        return self._replicas.directory.storage.volume()

    def traffic(self, topic: str) -> TopicTraffic:
        """What to count a topic's traffic into; topics that this broker does not hold are counted together."""
        return self._metrics.traffic(topic if topic in self.topics else NO_TOPIC)

    def wall_ms(self, now_us: int) -> int:
        """The time since 1970 in milliseconds, as this broker's clock has it."""
        return self._clock.ms(now_us)

    def next_number(self) -> int:
        """A number not given before; they grow."""
        return self._outbox.next_number()
