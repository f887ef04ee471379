"""When which requests come in a run, as far as its plan says; faults are drawn for these times.

The times follow from the plan alone: its pauses, added up. Producers do not wait for acknowledgements, so requests come
at these times until the first fault; then they come later. The first leaders are known, because the controller
assigns partitions to the brokers in turn; the leaders after brokers have ended are not.
"""

from __future__ import annotations

from bisect import bisect_left

from ottla.simulation.chance import Chance
from ottla.simulation.plan import ABORT, BEGIN, COMMIT, CRASH, OFFSETS, PAUSE, REPLACE, SEND, Act, Plan, ProducerPlan

# How long a producer's other requests take: for coordinators, producer ids, commits.
_CALL_US = 2_000
# How many rounds a reader makes.
_ROUNDS = 8
# How long the pauses are that `spread` adds.
_PIECE_US = 1_000_000


class Sending:
    """A record that is sent; `partition` None: chosen by key; `is_timely`: its time depends on the clock alone."""

    __slots__ = ("at_us", "is_timely", "partition", "producer", "topic")

    def __init__(self, at_us: int, producer: str, topic: str, partition: int | None, is_timely: bool) -> None:
        self.at_us = at_us
        self.is_timely = is_timely
        self.producer = producer
        self.topic = topic
        self.partition = partition


class Timetable:
    """The times of a plan without its faults; `end_us`: when the last producer is done."""

    def __init__(self, plan: Plan) -> None:
        self._brokers = plan.brokers
        self._first_leaders: dict[str, int] = {}
        self._partitions = {topic.name: topic.partitions for topic in plan.topics}
        made = 0
        for topic in plan.topics:
            self._first_leaders[topic.name] = made
            made += topic.partitions
        self.end_us = 0
        self.sendings: list[Sending] = []
        # By API, except Produce: when its requests come.
        self._calls: dict[str, list[int]] = {}
        for producer in plan.producers:
            self._note_acts(producer)
        for reader in plan.readers:
            rounds = [reader.pause_us * number for number in range(1, _ROUNDS + 1)]
            for api in ("Fetch", "ListOffsets", "Metadata"):
                self._call(api, *(at_us for at_us in rounds if at_us < self.end_us))
        self.sendings.sort(key=lambda each: each.at_us)
        self._sent_us = [each.at_us for each in self.sendings]
        for moments in self._calls.values():
            moments.sort()

    def _note_acts(self, producer: ProducerPlan) -> None:
        at_us = _CALL_US
        is_transactional = "transactional_id" in producer.settings
        is_known = is_transactional or producer.settings.get("enable_idempotence", True)
        self._call("Metadata", 0)
        if is_transactional:
            self._call("FindCoordinator", 0)
        if is_known:
            self._call("InitProducerId", 0)
        written: dict[tuple[str, int | None], None] = {}
        for act in producer.acts:
            if act.do == SEND:
                self.sendings.append(Sending(at_us, producer.name, act.topic, act.partition, not is_transactional))
                place = act.topic, act.partition
                if is_transactional and place not in written:
                    written[place] = None
                    self._call("AddPartitionsToTxn", at_us)
            elif act.do == PAUSE:
                at_us += act.pause_us
            elif act.do in (BEGIN, COMMIT, ABORT, OFFSETS):
                if act.do == OFFSETS:
                    self._call("TxnOffsetCommit", at_us)
                    self._call("FindCoordinator", at_us)
                elif act.do != BEGIN and written:
                    self._call("EndTxn", at_us)
                    self._call("WriteTxnMarkers", at_us)
                    written = {}
                at_us += _CALL_US
            elif act.do in (CRASH, REPLACE):
                at_us += act.pause_us if act.do == CRASH else 0
                self._call("Metadata", at_us)
                if is_transactional:
                    self._call("FindCoordinator", at_us)
                if is_known:
                    self._call("InitProducerId", at_us)
                written = {}
        self.end_us = max(self.end_us, at_us)

    def _call(self, api: str, *at_us: int) -> None:
        self._calls.setdefault(api, []).extend(at_us)

    def requests(self, api: str, topic: str | None = None) -> list[int]:
        """When requests of this API come."""
        if api != "Produce":
            return self._calls.get(api, [])
        return self._sent_us if topic is None else [each.at_us for each in self.sendings if each.topic == topic]

    def next_sending(
        self, at_us: int, chance: Chance, producer: str | None = None, topics: tuple[str, ...] | None = None
    ) -> Sending | None:
        """The first record with a known time that is sent from `at_us` on (by this producer, to these topics).

        If none is sent any more, any such record; None if there is none at all.
        """
        known = [
            each
            for each in self.sendings
            if (each.producer == producer if producer is not None else each.is_timely)
            and (topics is None or each.topic in topics)
        ]
        if not known:
            return None
        number = bisect_left(known, at_us, key=lambda each: each.at_us)
        return known[number] if number < len(known) else chance.choice(known)

    def leader(self, topic: str, partition: int) -> int:
        """The first leader of a partition."""
        return (self._first_leaders[topic] + partition) % self._brokers

    def leader_of(self, sending: Sending, chance: Chance) -> int:
        """The first leader of the partition to which a record is sent; drawn if the partition is not known."""
        partition = sending.partition
        if partition is None:
            partition = chance.randrange(self._partitions[sending.topic])
        return self.leader(sending.topic, partition)


def spread(chance: Chance, producer: ProducerPlan, until_us: int) -> None:
    """Add pauses between a producer's acts so that they take `until_us`; none if they take longer already."""
    acts = producer.acts
    works_us = sum(act.pause_us for act in acts if act.do in (PAUSE, CRASH))
    left_us = until_us - works_us
    if left_us <= 0 or not acts:
        return
    pieces = left_us // _PIECE_US + 1
    places = [chance.randrange(len(acts)) for _ in range(pieces)]
    for place in sorted(places, reverse=True):
        acts.insert(place, Act(PAUSE, pause_us=left_us // pieces))
