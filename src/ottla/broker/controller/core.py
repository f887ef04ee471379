"""The controller: topics, leaders and replicas of partitions, brokers that are alive; published as images.

One controller serves a cluster. Brokers pass administrative requests on to it (`ControllerRequest` in,
`ControllerResponse` out); every change goes out as `ImagePublished` before the answer does, so with a driver that
carries out outputs in order, every broker has a new topic before the client gets the answer. The first outputs hold the
image as it was found in storage; the brokers in `running` count as alive from the start, so that nothing waits for
their first heartbeat.

The decisions are in files of their own: `state` (what is known and stored), `topics`, `partitions`, `configs`,
`liveness` (heartbeats and fencing), `leadership` (elections, replicas in sync), `elections` (the rules),
`reassignments` (replicas that are moved), `moves` (the rules). Invariants: nothing is published or answered that is not
stored, except which brokers are alive; a producer id is given once, also across restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from copy import copy
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.broker.controller.configs import ClusterConfigs
from ottla.broker.controller.leadership import Leadership
from ottla.broker.controller.liveness import Liveness, tell_of_loss
from ottla.broker.controller.state import ControllerState
from ottla.broker.events import (
    BrokerAddress,
    BrokerHeartbeat,
    ClusterImage,
    ControllerRequest,
    ControllerResponse,
    ImagePublished,
    MoveLeader,
)
from ottla.broker.settings import BrokerSettings
from ottla.broker.storage import Storage
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import (
    ALTER_CLIENT_QUOTAS,
    ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
)
from ottla.protocol.messages.alter_partition import AlterPartitionRequest

if TYPE_CHECKING:
    from ottla.broker.controller.partitions import Partitions
    from ottla.broker.controller.reassignments import Reassignments
    from ottla.broker.controller.topics import Topics
    from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_SECOND_US = 1_000_000


class ControllerCore:
    """The controller of a cluster of these brokers; `storage` is its own folder.

    `cluster_id` names the cluster (default: drawn from `rng` and kept). `running`: the brokers started with it and
    their broker epochs (default: all, for the first time). They have their logs in these `directories` (by id, where
    that is known: a broker that has another than it had is not in sync, KIP-858). `lacking`: by broker, the folders
    of logs that lack records which were committed: they are not in sync where others are. With
    `resumes` only the controller was started anew, and the brokers went on without it: leaders and replicas in sync
    stay as they are stored, until heartbeats come, or fail to come. Raises UserMistake where the folder belongs to a
    cluster with brokers that are missing now, or is damaged; OSError where it cannot be written.
    """

    def __init__(
        self,
        brokers: Sequence[BrokerAddress],
        storage: Storage,
        settings: BrokerSettings,
        rng: Random,
        *,
        cluster_id: str | None = None,
        running: Mapping[int, int] | None = None,
        directories: Mapping[int, str] | None = None,
        lacking: Mapping[int, Container[str]] | None = None,
        resumes: bool = False,
    ) -> None:
        # A copy, which follows changes for all brokers; `settings` stays as started.
        self.settings = copy(settings)
        self._outputs: list[Any] = []
        self._rebalanced_us: int | None = None
        self.state = ControllerState(brokers, storage, rng, cluster_id, resumes=resumes)
        if not resumes:
            self.state.broker_epochs.clear()
        broker_ids = [address.broker_id for address in self.state.brokers]
        self.liveness = Liveness(self, broker_ids, dict.fromkeys(broker_ids, 1) if running is None else running)
        alive, publish = self.liveness.is_alive, self.publish
        self.leadership = Leadership(self.state, self.settings, alive, self.liveness.epoch_of, publish)
        self._static_settings = settings
        self._topics: Topics | None = None
        self._partitions: Partitions | None = None
        self._reassignments: Reassignments | None = None
        self.configs = ClusterConfigs(self.state, settings, self.settings, publish)
        if not resumes:
            told = {} if directories is None else directories
            lost = [each for each, directory_id in told.items() if self.liveness.has_lost(each, directory_id)]
            self.leadership.restart(clean=self.state.was_clean, lost=lost, lacking={} if lacking is None else lacking)
            self.state.directories.update(told)
            for broker_id in lost:
                tell_of_loss(broker_id)
        self.state.save()
        self.announce()

    @property
    def image(self) -> ClusterImage:
        """The cluster as it was published last."""
        return self.state.image

    def receive(self, event: Any, now_us: int) -> None:
        """Take a ControllerRequest."""
        if not isinstance(event, ControllerRequest):
            raise TypeError(f"the controller knows no event {type(event).__name__}")
        message = event.message
        if isinstance(message, MoveLeader):
            self._outputs.append(ControllerResponse(event.broker_id, event.token, self.leadership.move(message)))
            return
        if isinstance(message, BrokerHeartbeat):
            answer: Any = self.liveness.heartbeat(message, now_us)
        elif message.API_KEY == AlterPartitionRequest.API_KEY:
            answer = self.leadership.alter(message)
        else:
            answer = self._handler_of(message.API_KEY)(message)
        self._outputs.append(ControllerResponse(event.broker_id, event.token, answer))

    def _handler_of(self, api_key: int) -> Callable[[Any], Any]:
        """The handler of an administrative request; most are imported with the first one, as such requests are rare."""
        if api_key == CREATE_TOPICS:
            return self.topics.create
        if api_key == DELETE_TOPICS:
            return self.topics.delete
        if api_key == INIT_PRODUCER_ID:
            return self._init_producer_id
        if api_key in (ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS):
            return self.configs.alter
        if api_key == CREATE_PARTITIONS:
            return self.partitions.create
        if api_key == ELECT_LEADERS:
            return self.leadership.elect
        if api_key == ALTER_PARTITION_REASSIGNMENTS:
            return self.reassignments.alter
        if api_key == ALTER_CLIENT_QUOTAS:
            from ottla.broker.controller.quotas import Quotas

            return Quotas(self.state, self.publish).alter
        raise TypeError(f"the controller answers no API {api_key}")

    @property
    def topics(self) -> Topics:
        """What makes and deletes topics."""
        if self._topics is None:
            from ottla.broker.controller.topics import Topics

            alive = self.liveness.is_alive
            self._topics = Topics(self.state, self._static_settings, self.settings, alive, self.publish)
        return self._topics

    @property
    def partitions(self) -> Partitions:
        """What adds partitions to topics."""
        if self._partitions is None:
            from ottla.broker.controller.partitions import Partitions

            self._partitions = Partitions(self.state, self.topics, self.publish)
        return self._partitions

    @property
    def reassignments(self) -> Reassignments:
        """What moves replicas."""
        if self._reassignments is None:
            from ottla.broker.controller.reassignments import Reassignments

            alive = self.liveness.is_alive
            self._reassignments = Reassignments(self.state, self.topics, self.leadership, alive, self.publish)
        return self._reassignments

    def outputs(self) -> list[Any]:
        """ImagePublished (for every broker) and ControllerResponse, in order; each is handed out once."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def deadline_us(self) -> int | None:
        """When to look after brokers and leaders again; None while no broker is alive."""
        return self.liveness.deadline_us()

    def tick(self, now_us: int) -> None:
        """Fence silent brokers; now and then give leadership back to preferred leaders."""
        self.liveness.look(now_us)
        if not self.settings.auto_leader_rebalance_enable:
            return
        if self._rebalanced_us is None:
            self._rebalanced_us = now_us
        elif now_us - self._rebalanced_us >= self.settings.leader_imbalance_check_interval_seconds * _SECOND_US:
            self._rebalanced_us = now_us
            try:
                self.leadership.rebalance()
            except OSError:
                # Nothing has moved; the next round tries again.
                return

    def close(self) -> None:
        """Store that the brokers closed their logs in order: then replicas in sync stay in sync at the next start."""
        self.state.save(clean=True)

    def announce(self) -> int:
        """Publish which brokers are alive, and their newest starts; returns the image's version."""
        brokers = tuple(each for each in self.state.brokers if self.liveness.is_seen(each.broker_id))
        image = self.state.announce(brokers, self.liveness.epochs())
        self.publish(image)
        return image.version

    def publish(self, image: ClusterImage) -> None:
        """Send an image to every broker."""
        self._outputs.append(ImagePublished(image))

    def _init_producer_id(self, message: InitProducerIdRequest) -> InitProducerIdResponse:
        from ottla.protocol.messages.init_producer_id import InitProducerIdResponse

        try:
            return InitProducerIdResponse(producer_id=self.state.take_producer_id(), producer_epoch=0)
        except OSError:
            return InitProducerIdResponse(
                error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, producer_id=-1, producer_epoch=-1
            )
