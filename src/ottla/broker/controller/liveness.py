"""Which brokers are alive: heartbeats, fencing, controlled shutdown (KIP-500, KIP-631).

Every broker sends BrokerHeartbeat. One that sends none for `broker.session.timeout.ms` is fenced: it leads nothing, is
in sync only where it is the last, and clients do not see it. The broker epoch in the heartbeat numbers the starts of a
broker. A newer one means that the broker was started again, however short it was away: it is fenced, and let in again
when it has the image with this start. A heartbeat also has the id of the broker's folder (KIP-858): if it is not the id
of before, the broker has lost its logs, and is in sync only where it is the only replica (`elections`). A broker that
wants to shut down may do so when it leads nothing that another could lead.

A controller that was itself held up (a laptop put to sleep, a debugger) adds that time to all sessions. If its clock
was set ahead on purpose, that time counts: it waits for the heartbeats that are due by then, and looks after that.

Invariant: a fenced broker leads nothing, as soon as that could be stored.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from ottla.broker.controller.leadership import Leadership
from ottla.broker.controller.state import ControllerState
from ottla.broker.events import BrokerHeartbeat, ClusterImage
from ottla.broker.settings import BrokerSettings
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse

# Logged beside the brokers' own messages; the driver shows what is logged.
logger = logging.getLogger("ottla.broker")


class Controller(Protocol):
    """What the controller must offer when a broker comes or goes."""

    state: ControllerState
    settings: BrokerSettings
    leadership: Leadership

    @property
    def image(self) -> ClusterImage:
        """The cluster as it was published last."""
        ...

    def announce(self) -> int:
        """Publish which brokers are alive, and their newest starts; returns the image's version."""
        ...

    def publish(self, image: ClusterImage) -> None:
        """Send an image to every broker."""
        ...


class BrokerLife:
    """What the controller knows of one broker.

    `epoch`: its newest start, 0 before the first; `registered_version`: of the image that first had this start.
    `is_trusted`: it counts as alive since this controller began, and has sent no heartbeat yet.
    """

    __slots__ = ("epoch", "heard_us", "is_alive", "is_leaving", "is_trusted", "registered_version")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.heard_us: int | None = None
        self.is_alive = self.is_trusted = epoch > 0
        self.is_leaving = False
        self.registered_version = 0


class Liveness:
    """All brokers' lives; those in `running` count as alive, with these broker epochs."""

    def __init__(self, controller: Controller, broker_ids: list[int], running: Mapping[int, int]) -> None:
        self._controller = controller
        self._lives = {broker_id: BrokerLife(running.get(broker_id, 0)) for broker_id in broker_ids}
        for broker_id, epoch in controller.state.broker_epochs.items():
            self._lives[broker_id].epoch = epoch
        self._session_us = controller.settings.broker_session_timeout_ms * 1000
        self._interval_us = controller.settings.broker_heartbeat_interval_ms * 1000
        self._looked_us: int | None = None
        # How often it was told to wait, and not yet to look again.
        self._waits = 0

    def is_alive(self, broker_id: int) -> bool:
        """Whether a broker may lead and be in sync."""
        life = self._lives.get(broker_id)
        return life is not None and life.is_alive and not life.is_leaving

    def is_seen(self, broker_id: int) -> bool:
        """Whether clients see a broker: also while it hands over before it shuts down."""
        return self._lives[broker_id].is_alive

    def has_lost(self, broker_id: int, directory_id: str) -> bool:
        """Whether a broker with this folder had another one before."""
        return self._controller.state.directories.get(broker_id, directory_id) != directory_id

    def epoch_of(self, broker_id: int) -> int:
        """Which start of the broker is the newest known; 0 for none."""
        life = self._lives.get(broker_id)
        return life.epoch if life is not None else 0

    def epochs(self) -> dict[int, int]:
        """The newest known start of every broker."""
        return {broker_id: life.epoch for broker_id, life in self._lives.items()}

    def heartbeat(self, event: BrokerHeartbeat, now_us: int) -> BrokerHeartbeatResponse:
        """Take a broker's heartbeat; the answer says whether the broker is fenced."""
        message = event.heartbeat
        broker_id = message.broker_id
        life = self._lives.get(broker_id)
        if life is None:
            return BrokerHeartbeatResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
        if message.broker_epoch < life.epoch:
            return BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        try:
            if message.broker_epoch > life.epoch:
                self._register(broker_id, life, message.broker_epoch, event.directory_id)
            elif broker_id not in self._controller.state.directories:
                self._controller.state.register(broker_id, life.epoch, event.directory_id)
            life.heard_us = now_us
            if life.is_trusted and life.is_alive:
                # The controller before this one may have fenced it, and left its partitions without a leader.
                self._controller.leadership.fill_vacancies()
            life.is_trusted = False
            if message.want_shut_down:
                return self._leave(broker_id, life)
            if not life.is_alive and message.current_metadata_offset >= life.registered_version:
                self._let_in(life)
            elif message.current_metadata_offset < self._controller.image.version:
                # An image may have been lost on its way; brokers that have it ignore it.
                self._controller.publish(self._controller.image)
        except OSError:
            return BrokerHeartbeatResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, is_fenced=not life.is_alive)
        return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=not life.is_alive)

    def await_heartbeats(self) -> None:
        """The clock was set ahead: fence nobody until `heartbeats_came`."""
        self._waits += 1

    def heartbeats_came(self) -> None:
        """Whoever is alive has sent a heartbeat: who has not, has been silent for all the time that has passed."""
        self._waits -= 1
        # The time since the last look does not count as one in which the controller was held up.
        self._looked_us = None

    def look(self, now_us: int) -> None:
        """Fence brokers that have sent nothing for too long."""
        looked_us, self._looked_us = self._looked_us, now_us
        if self._waits:
            return
        held_up_us = 0 if looked_us is None else max(0, now_us - looked_us - 2 * self._interval_us)
        for life in self._lives.values():
            life.heard_us = now_us if life.heard_us is None else min(now_us, life.heard_us + held_up_us)
        # The broker heard of last is fenced last: if all are fenced, it stays in sync, as it has everything.
        for broker_id, life in sorted(self._lives.items(), key=_heard_us):
            assert life.heard_us is not None
            if life.is_alive and now_us - life.heard_us >= self._session_us:
                try:
                    self._fence(broker_id, life)
                except OSError:
                    # It stays as it was, and the next look tries again.
                    continue

    def deadline_us(self) -> int | None:
        """When to look again."""
        if not any(life.is_alive for life in self._lives.values()):
            return None
        return 0 if self._looked_us is None else self._looked_us + self._interval_us

    def _register(self, broker_id: int, life: BrokerLife, epoch: int, directory_id: str) -> None:
        was_alive, life.is_alive = life.is_alive, False
        has_lost = self.has_lost(broker_id, directory_id)
        try:
            # In this order: after a crash in between, this start is registered once more, which changes nothing.
            self._controller.leadership.leave(broker_id, has_lost=has_lost)
            self._controller.state.register(broker_id, epoch, directory_id)
        except OSError:
            life.is_alive = was_alive
            raise
        if has_lost:
            tell_of_loss(broker_id)
        life.epoch = epoch
        life.is_leaving = False
        life.registered_version = self._controller.announce()

    def _let_in(self, life: BrokerLife) -> None:
        life.is_alive = True
        self._controller.announce()
        self._controller.leadership.fill_vacancies()

    def _fence(self, broker_id: int, life: BrokerLife) -> None:
        life.is_alive = False
        try:
            self._controller.leadership.leave(broker_id)
        except OSError:
            life.is_alive = True
            raise
        life.is_leaving = False
        # After a pause, it must have the image of this change before it is let in again.
        life.registered_version = self._controller.announce()

    def _leave(self, broker_id: int, life: BrokerLife) -> BrokerHeartbeatResponse:
        life.is_leaving = True
        if life.is_alive:
            self._controller.leadership.leave(broker_id)
            self._fence(broker_id, life)
        return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True, should_shut_down=True)


def tell_of_loss(broker_id: int) -> None:
    """Log that a broker has lost its logs."""
    logger.warning(
        "broker %d has another folder than before, and nothing of what was in that one: it is in sync only where it is "
        "the only replica, and copies all else from the others; a partition of which it was the last in sync has no "
        "leader until one is elected uncleanly",
        broker_id,
    )


def _heard_us(entry: tuple[int, BrokerLife]) -> int:
    return entry[1].heard_us or 0
