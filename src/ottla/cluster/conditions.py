"""What is wrong with the brokers of one cluster for a while: puts a `Condition` into effect, and heals it.

Disks and clocks are changed where they are (`Space`, `BrokerCore.wall_offset_us`); links ask `between` before they
carry a message from one broker to another, and `late_us` before they hand a broker something to write. A broker that
is started anew while a condition holds gets it, too: `broker_started`. Leaders are the controller's affair: it is asked
for others, where `look` finds nobody who leads, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.broker.events import ClusterImage, MoveLeader, PeerAnswered, RequestReceived
from ottla.cluster.links import Links
from ottla.cluster.machines import ALL_DOWN, Machines
from ottla.errors import UserMistake
from ottla.faults.condition import Condition, Conditions
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.produce import ProduceRequest

_UNCLEAN = 1
_TIMEOUT_MS = 10_000


class ImposedConditions:
    """The conditions of one cluster and what they do; raises UserMistake for brokers and records that do not exist."""

    def __init__(self, links: Links, machines: Machines) -> None:
        self._conditions = Conditions()
        self._links = links
        self._machines = machines
        # What a full disk had refused when the condition began.
        self._refused_before: dict[int, int] = {}
        # Those for which an election is under way.
        self._electing: dict[int, None] = {}
        links.troubles = self
        machines.started = self.broker_started

    @property
    def active(self) -> bool:
        """Whether any is in force."""
        return self._conditions.active

    def impose(self, condition: Condition, done: Callable[[Any], None]) -> None:
        """Put it into effect and call `done` with its id; raises UserMistake where that cannot be.

        Where only the controller can tell that it cannot be, `done` gets the UserMistake.
        """
        for broker_id in (condition.broker_id, condition.other_id):
            if broker_id is not None:
                self._machines.of(broker_id)
        if condition.kind == "corrupt":
            self._corrupt(condition)
        if condition.kind == "move_leader":
            if not self._links.has_controller:
                raise UserMistake(ALL_DOWN)
            order = MoveLeader(condition.topic or "", condition.partition or 0)
            self._links.order(order, lambda moved: done(self._moved(condition, moved)))
            return
        condition_id = self._conditions.add(condition)
        broker_id = condition.broker_id or 0
        if condition.kind == "full_disk":
            space = self._machines.of(broker_id).storage.space
            self._refused_before[condition_id] = space.refused
            space.is_full = True
        elif condition.kind == "jump_clock":
            self._move_clock(broker_id, condition.jump_ms or 0)
            self._conditions.fire(condition_id)
        elif condition.kind == "corrupt":
            self._conditions.fire(condition_id)
        elif condition.kind in ("unplug", "half_open"):
            self._silence(broker_id, condition_id)
        elif condition.kind == "unclean_election" and self._links.image is not None:
            self.look(self._links.image)
        done(condition_id)

    def look(self, image: ClusterImage) -> None:
        """Something has changed: have leaders elected where nobody may lead and a condition wants one all the same."""
        for condition_id in self._conditions.of_kind("unclean_election"):
            condition = self._conditions.condition(condition_id)
            topic, index = condition.topic or "", condition.partition or 0
            found = image.topics.get(topic)
            partitions = () if found is None else found.partitions
            if condition_id in self._electing or not self._links.has_controller:
                continue
            if index >= len(partitions) or partitions[index].leader >= 0:
                continue
            from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

            wanted = [TopicPartitions(topic=topic, partitions=[index])]
            self._electing[condition_id] = None
            request = ElectLeadersRequest(election_type=_UNCLEAN, topic_partitions=wanted, timeout_ms=_TIMEOUT_MS)
            self._links.order(request, partial(self._elected, condition_id))

    def _elected(self, condition_id: int, response: Any) -> None:
        del self._electing[condition_id]
        if response is not None and not response.replica_election_results[0].partition_result[0].error_code:
            self._conditions.fire(condition_id)

    def _moved(self, condition: Condition, moved: Any) -> Any:
        if not isinstance(moved, int):
            return UserMistake(moved or ALL_DOWN)
        condition_id = self._conditions.add(condition)
        self._conditions.fire(condition_id)
        return condition_id

    def heal(self, condition_id: int) -> None:
        """End its effect as far as it has an end."""
        condition = self._conditions.heal(condition_id)
        if condition is None:
            return
        broker_id = condition.broker_id or 0
        if condition.kind == "full_disk":
            space = self._machines.of(broker_id).storage.space
            self._conditions.fire(condition_id, space.refused - self._refused_before.pop(condition_id))
            space.is_full = bool(self._conditions.of_broker("full_disk", broker_id))
        elif condition.kind == "jump_clock":
            self._move_clock(broker_id, -(condition.jump_ms or 0))
        elif condition.kind in ("cut_link", "isolate"):
            self._links.tell_news()
        elif condition.kind == "unplug":
            server = self._machines.of(broker_id).server
            if server is not None:
                server.speak(condition_id)

    def counts(self, condition_id: int) -> dict[str, int]:
        """How often it has fired; what fired is all it was about."""
        fired = self._conditions.fired(condition_id)
        before = self._refused_before.get(condition_id)
        if before is not None:
            broker_id = self._conditions.condition(condition_id).broker_id or 0
            fired += self._machines.of(broker_id).storage.space.refused - before
        return {"fired": fired, "matched": fired}

    def parted(self, broker_id: int, other_id: int) -> bool:
        """Whether these two (0: the controller) cannot reach each other; counts the message that does not arrive."""
        condition_id = self._conditions.between(broker_id, other_id)
        if condition_id is None:
            return False
        self._conditions.fire(condition_id)
        return True

    def late_us(self, broker_id: int, event: Any) -> int:
        """How late a slow disk makes this event; 0 for what makes nobody write."""
        if not _makes_write(event):
            return 0
        late_ms = 0
        for condition_id in self._conditions.of_broker("slow_disk", broker_id):
            late_ms += self._conditions.condition(condition_id).delay_ms or 0
            self._conditions.fire(condition_id)
        return late_ms * 1000

    def broker_started(self, broker_id: int) -> None:
        """A broker has a new core and new doors: its clock and its plug are as they were."""
        core = self._machines.of(broker_id).core
        for condition_id in self._conditions.of_broker("jump_clock", broker_id):
            if core is not None:
                core.wall_offset_us += (self._conditions.condition(condition_id).jump_ms or 0) * 1000
        for condition_id in self._conditions.of_broker("unplug", broker_id):
            self._silence(broker_id, condition_id)

    def _silence(self, broker_id: int, condition_id: int) -> None:
        server = self._machines.of(broker_id).server
        if server is not None:
            condition = self._conditions.condition(condition_id)
            silenced = partial(self._conditions.fire, condition_id)
            server.fall_silent(condition_id, condition.client_id, silenced, for_good=condition.kind == "half_open")

    def _move_clock(self, broker_id: int, jump_ms: int) -> None:
        core = self._machines.of(broker_id).core
        if core is not None:
            core.wall_offset_us += jump_ms * 1000

    def _corrupt(self, condition: Condition) -> None:
        topic, index, offset = condition.topic or "", condition.partition or 0, condition.offset or 0
        broker_id = condition.broker_id or 0
        core = self._machines.of(broker_id).core
        partition = core.topics.get(topic, {}).get(index) if core is not None else None
        log = partition.log if partition is not None else None
        if log is None:
            raise UserMistake(f"broker {broker_id} holds no log of {topic}-{index}: name one of its replicas.")
        if not log.log_start_offset <= offset < log.log_end_offset:
            raise UserMistake(
                f"{topic}-{index} has no offset {offset} on broker {broker_id}: "
                f"it goes from {log.log_start_offset} to {log.log_end_offset - 1}."
            )
        path, position = log.byte_of(offset)
        self._machines.of(broker_id).storage.flip_byte(path, position)


def _makes_write(event: Any) -> bool:
    if type(event) is RequestReceived:
        return type(event.message) is ProduceRequest
    return type(event) is PeerAnswered and type(event.message) is FetchResponse
