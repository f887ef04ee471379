"""What is wrong with the brokers of one cluster for a while: puts a `Condition` into effect, and heals it.

Disks, clocks and links are the host's; connections of clients fall silent at their server. A broker that is started
anew while a condition holds gets it, too. Leaders are the controller's affair: it is asked for others, where `look`
finds nobody who leads, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.broker.events import ClusterImage, MoveLeader
from ottla.cluster.brokers import ALL_DOWN, EmbeddedBrokers, core_of
from ottla.errors import UserMistake
from ottla.faults.condition import Condition, Conditions
from ottla.host.broker_machine import SlowDisk
from ottla.host.links import CONTROLLER, Cut

_UNCLEAN = 1
_TIMEOUT_MS = 10_000


class ImposedConditions:
    """The conditions of one cluster and what they do; raises UserMistake for brokers and records that do not exist."""

    def __init__(self, brokers: EmbeddedBrokers) -> None:
        self._conditions = Conditions()
        self._brokers = brokers
        self._host = brokers.host
        # What counts by itself, while the condition is in force.
        self._cuts: dict[int, list[Cut]] = {}
        self._slow_disks: dict[int, SlowDisk] = {}
        # What a full disk had refused when the condition began.
        self._refused_before: dict[int, int] = {}
        # Those for which an election is under way.
        self._electing: dict[int, None] = {}
        self._host.started = self.broker_started

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
                self._brokers.check(broker_id)
        if condition.kind == "corrupt":
            self._corrupt(condition)
        if condition.kind == "move_leader":
            order = MoveLeader(condition.topic or "", condition.partition or 0)
            self._host.links.order(order, lambda moved: done(self._moved(condition, moved)))
            return
        condition_id = self._conditions.add(condition)
        broker_id = condition.broker_id or 0
        if condition.kind == "full_disk":
            space = self._brokers.disks[broker_id].space
            self._refused_before[condition_id] = space.refused
            space.is_full = True
        elif condition.kind == "jump_clock":
            self._host.jump_clock(broker_id, (condition.jump_ms or 0) * 1000)
            self._conditions.fire(condition_id)
        elif condition.kind == "slow_disk":
            self._slow_disks[condition_id] = self._host.slow_down(broker_id, (condition.delay_ms or 0) * 1000)
        elif condition.kind == "cut_link":
            self._cuts[condition_id] = [self._host.links.cut(broker_id, condition.other_id or 0)]
        elif condition.kind == "isolate":
            others = [each for each in (*self._brokers.disks, CONTROLLER) if each != broker_id]
            self._cuts[condition_id] = [self._host.links.cut(broker_id, other) for other in others]
        elif condition.kind == "corrupt":
            self._conditions.fire(condition_id)
        elif condition.kind in ("unplug", "half_open"):
            self._silence(broker_id, condition_id)
        elif condition.kind == "unclean_election" and self._host.links.image is not None:
            self.look(self._host.links.image)
        done(condition_id)

    def look(self, image: ClusterImage) -> None:
        """Something has changed: have leaders elected where nobody may lead and a condition wants one all the same."""
        for condition_id in self._conditions.of_kind("unclean_election"):
            condition = self._conditions.condition(condition_id)
            topic, index = condition.topic or "", condition.partition or 0
            found = image.topics.get(topic)
            partitions = () if found is None else found.partitions
            if condition_id in self._electing or not self._host.has_controller:
                continue
            if index >= len(partitions) or partitions[index].leader >= 0:
                continue
            from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

            wanted = [TopicPartitions(topic=topic, partitions=[index])]
            self._electing[condition_id] = None
            request = ElectLeadersRequest(election_type=_UNCLEAN, topic_partitions=wanted, timeout_ms=_TIMEOUT_MS)
            self._host.links.order(request, partial(self._elected, condition_id))

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
            space = self._brokers.disks[broker_id].space
            self._conditions.fire(condition_id, space.refused - self._refused_before.pop(condition_id))
            space.is_full = bool(self._conditions.of_broker("full_disk", broker_id))
        elif condition.kind == "jump_clock":
            self._host.jump_clock(broker_id, -(condition.jump_ms or 0) * 1000)
        elif condition.kind == "slow_disk":
            slow = self._slow_disks.pop(condition_id)
            self._host.speed_up(slow)
            self._conditions.fire(condition_id, slow.fired)
        elif condition.kind in ("cut_link", "isolate"):
            for cut in self._cuts.pop(condition_id):
                self._host.links.mend(cut)
                self._conditions.fire(condition_id, cut.fired)
            # Brokers that could not be reached may have missed an image.
            self._host.links.publish_again()
        elif condition.kind == "unplug":
            server = self._brokers.server(broker_id)
            if server is not None:
                server.speak(condition_id)

    def counts(self, condition_id: int) -> dict[str, int]:
        """How often it has fired; what fired is all it was about."""
        fired = self._conditions.fired(condition_id)
        before = self._refused_before.get(condition_id)
        if before is not None:
            broker_id = self._conditions.condition(condition_id).broker_id or 0
            fired += self._brokers.disks[broker_id].space.refused - before
        fired += sum(cut.fired for cut in self._cuts.get(condition_id, ()))
        slow = self._slow_disks.get(condition_id)
        if slow is not None:
            fired += slow.fired
        return {"fired": fired, "matched": fired}

    def broker_started(self, broker_id: int) -> None:
        """A broker has new doors: its plug is as it was."""
        for condition_id in self._conditions.of_broker("unplug", broker_id):
            self._silence(broker_id, condition_id)

    def _silence(self, broker_id: int, condition_id: int) -> None:
        server = self._brokers.server(broker_id)
        if server is not None:
            condition = self._conditions.condition(condition_id)
            silenced = partial(self._conditions.fire, condition_id)
            server.fall_silent(condition_id, condition.client_id, silenced, for_good=condition.kind == "half_open")

    def _corrupt(self, condition: Condition) -> None:
        topic, index, offset = condition.topic or "", condition.partition or 0, condition.offset or 0
        broker_id = condition.broker_id or 0
        core = core_of(self._host.brokers.get(broker_id))
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
        self._brokers.disks[broker_id].flip_byte(path, position)
