"""What an API handler may ask of its broker, and nothing more.

A handler gets a request, looks at the partitions and the image, asks coordinators or the controller, and answers the
request once. Where it must wait it puts something into the purgatory that answers later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.connections import Cancellable, Connections
from ottla.broker.coordinators import Coordinators
from ottla.broker.events import BrokerAddress, ClusterImage
from ottla.broker.metrics import NO_TOPIC, BrokerMetrics, TopicTraffic
from ottla.broker.outbox import Answered, Outbox
from ottla.broker.purgatory import Purgatory
from ottla.broker.replicas import Replicas
from ottla.broker.request import Request
from ottla.broker.request_channel import RequestChannel, Waiting
from ottla.broker.wall_clock import WallClock

if TYPE_CHECKING:
    # Loaded when a client asks for them; most clusters never see either.
    from ottla.broker.groups.coordinator import GroupCoordinator
    from ottla.broker.transactions.coordinator import TransactionCoordinator
    from ottla.broker.transactions.verification import Verification


class BrokerPort:
    """The broker that a handler works for.

    `topics`: the partitions held here, by topic and index. `settings` follows what is changed while the broker runs,
    `static_settings` is as it was started. `purgatory`: what waits for something or for its deadline.
    """

    __slots__ = (
        "_channel",
        "_clock",
        "_connections",
        "_coordinators",
        "_metrics",
        "_outbox",
        "_replicas",
        "broker_id",
        "fetch_sessions",
        "purgatory",
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

    # Answers.

    def answer(self, request: Request, message: Any, now_us: int) -> None:
        """Give a request its answer, once."""
        self._channel.answer(request, message, now_us)

    def records_stored(self, request: Request, stored: tuple[tuple[str, int], ...], now_us: int) -> None:
        """The records of a request are in the log of these partitions; to be said before it is answered."""
        self._channel.records_stored(request, stored, now_us)

    def park(self, request: Request, waiter: Cancellable) -> None:
        """Let `waiter` be cancelled when the request's connection is lost."""
        self._connections.park(request.connection_id, waiter)

    def hang_up(self, request: Request, reason: str) -> None:
        """End the request's connection instead of answering."""
        self._connections.hang_up(request.connection_id, reason)

    def wake(self, waiting: Waiting) -> None:
        """Let a request that waits look again once the one at hand has been dealt with."""
        self._channel.wake(waiting)

    # Others.

    def ask_controller(self, message: Any, answered: Answered) -> None:
        """Call `answered(answer, now)` when the controller has said something; None: it cannot be reached."""
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
        """What asks the coordinators of transactions on behalf of the partitions led here."""
        return self._coordinators.verification

    # The cluster, and what this broker holds of it.

    @property
    def image(self) -> ClusterImage:
        """The cluster as the controller told it last."""
        return self._replicas.image

    def why_not_here(self, topic: str | None, index: int) -> tuple[int, str]:
        """Error code and sentence for a partition that this broker does not lead; None: asked for by an unknown id."""
        return self._replicas.why_not_here(topic, index)

    def leader_of(self, topic: str, index: int) -> tuple[int, int, BrokerAddress | None]:
        """The leader's id, its epoch, and where it is; (-1, -1, None) where that is not known."""
        return self._replicas.leader_of(topic, index)

    def heard_from_follower(self, broker_id: int, now_us: int) -> None:
        """A broker fetches what it follows."""
        self._replicas.heard_from_follower(broker_id, now_us)

    def disk_space(self) -> tuple[str, int, int]:
        """The folder of the logs, its bytes in all and those that are free; OSError."""
        return self._replicas.directory.storage.place()

    def traffic(self, topic: str) -> TopicTraffic:
        """What to count a topic's traffic into; topics that this broker does not hold are counted together."""
        return self._metrics.traffic(topic if topic in self.topics else NO_TOPIC)

    def wall_ms(self, now_us: int) -> int:
        """The time since 1970 in milliseconds, as this broker's clock has it."""
        return self._clock.ms(now_us)

    def next_number(self) -> int:
        """A number not given before; they grow."""
        return self._outbox.next_number()
