"""A broker's heartbeats to the controller: it is alive, which start of it this is, whether it wants to shut down.

One every `broker.heartbeat.interval.ms`, the first at once; while the broker is fenced, the next follows as soon as a
newer image was applied. A broker that is to shut down repeats that until the controller agrees, so that others lead
before its logs are closed. A broker that cannot read the id of its folder (KIP-858) sends none.
"""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.broker.events import BrokerHeartbeat, LetGo
from ottla.broker.outbox import Outbox
from ottla.broker.replicas import Replicas
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


class Heartbeats:
    """When the next one is due, and the last answer; `rng` draws the folder's id where it has none yet."""

    __slots__ = (
        "_interval_us",
        "_is_fenced",
        "_outbox",
        "_replicas",
        "_reported_version",
        "_rng",
        "_wants_to_go",
        "due_us",
    )

    def __init__(self, replicas: Replicas, outbox: Outbox, rng: Random) -> None:
        self._replicas = replicas
        self._outbox = outbox
        self._rng = rng
        self._interval_us = replicas.settings.broker_heartbeat_interval_ms * 1000
        self._is_fenced = False
        self._reported_version = -1
        self._wants_to_go = False
        self.due_us = 0

    def send(self, now_us: int) -> None:
        """Send one now."""
        replicas = self._replicas
        self.due_us = now_us + self._interval_us
        try:
            directory_id = replicas.directory.identify(replicas.broker_id, self._rng)
        except OSError:
            return
        self._reported_version = replicas.image.version
        message = BrokerHeartbeatRequest(
            broker_id=replicas.broker_id,
            broker_epoch=replicas.broker_epoch,
            current_metadata_offset=replicas.image.version,
            want_shut_down=self._wants_to_go,
        )
        self._outbox.ask_controller(BrokerHeartbeat(message, directory_id), self._answered)

    def go(self, now_us: int) -> None:
        """Ask the controller to let this broker shut down."""
        self._wants_to_go = True
        self.send(now_us)

    def image_applied(self) -> None:
        """The broker has a newer image than in its last heartbeat; while it is fenced, the next one is sent at once."""
        if self._is_fenced and self._replicas.image.version > self._reported_version:
            self.due_us = 0

    def _answered(self, message: Any, now_us: int) -> None:
        if not isinstance(message, BrokerHeartbeatResponse) or message.error_code:
            return
        self._is_fenced = message.is_fenced
        if message.should_shut_down:
            self._outbox.put(LetGo())
        else:
            self.image_applied()
