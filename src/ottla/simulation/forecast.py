"""What may go wrong, drawn from a seed: which kinds a run has at all, then so many mishaps of them, one after another.

| kind | details | what happens |
|---|---|---|
| `rule` | a `FaultRule` as a dictionary | single requests are struck (faults/rule.py), brokers in the midst of them |
| `kill` | `broker` | that broker dies, and is started again after `lasts_us` |
| `pause` | `broker` | it freezes |
| `restart` | `broker` | it is shut down in order |
| `power_off` | `broker`, `anywhere` | its power is cut; without `anywhere` only where everything is in sync |
| `cut_power` | `controller` or nothing | the power of the whole cluster, of the controller, too, where it says so |
| `corrupt` | `broker`, `topic`, `partition` | it dies, and a byte is wrong in what it had not synced of that log |
| `cut_link` | `one`, `other`, `silently` | two brokers, or a broker and the controller (-2), do not hear each other |
| `isolate` | `broker`, `silently` | no other broker and no controller hears it; clients do |
| `lose` | `chance` | some of what brokers and controller say to each other is lost |
| `unplug` | `broker`, `client` | what that client (None: any) and the broker say waits until it is over |
| `half_open` | `broker` (None: any), `client` | connections there are now, or the next one, lose everything for good |
| `stall` | `chance`, `most_us` | some messages are held up, and what is behind them on their connection |
| `full_disk` | `broker` | nothing can be written |
| `slow_disk` | `broker`, `delay_us` | what makes it write is late |
| `failing_disk` | `broker`, `operation`, `every`, `evicts` | each so many-th `read`, `write` or `sync` fails (`disk`) |
| `drift_clock` | `broker` (or -2) or `client`, `ppm` | its clock runs too fast or too slow |
| `jump_clock` | `broker`, `jump_ms` | its date is another |
| `move_leader` | `topic`, `partition` | another replica in sync leads; for internal topics: a coordinator moves |
| `stop_controller` | | the controller loses power while it writes, and comes back from its disk after `lasts_us` |

In mild weather nothing happens that Kafka does not survive without a sync; `SEVERE` kinds are drawn in severe weather
only. Swarm testing (Groce and others, ISSTA 2012): a run has few of the kinds, so that they do not hide each other.

What strikes nothing tests nothing, so a mishap is drawn for a time and a place where it has something to strike, as far
as a plan tells (`timetable`): while producers write, not at a broker that another mishap has taken down. Which that is
in the run is another matter; mishaps that come too late for what they were meant for still miss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.broker.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.faults.rule import CRASHES, MOMENTS
from ottla.host.links import CONTROLLER
from ottla.simulation.chance import Chance
from ottla.simulation.disk import OPERATIONS, SYNC, WRITE
from ottla.simulation.plan import SEVERE_WEATHER, Mishap, Plan, TopicPlan
from ottla.simulation.timetable import Sending, Timetable

_APIS = (
    "Produce",
    "Produce",
    "Produce",
    "EndTxn",
    "InitProducerId",
    "AddPartitionsToTxn",
    "TxnOffsetCommit",
    "WriteTxnMarkers",
    "FindCoordinator",
    "Metadata",
    "Fetch",
    "ListOffsets",
)
_RULES = ("lose_ack", "lose_ack", "lose_request", "drop_ack", "drop_request", "delay_ack", "delay_request", "redeliver")
_DELAYED = ("delay_ack", "delay_request", "redeliver")
# NOT_LEADER, timeout, NOT_ENOUGH_REPLICAS before and after the append, an unknown topic, an unknown error.
_ERRORS = (3, 6, 7, 19, 20, -1)
# How many runs have struck requests among the rest: nothing finds more.
_RULES_SHARE = 0.6
# How many of the power cuts of a whole cluster take the controller with it.
_CONTROLLER_TOO_SHARE = 0.5
_LASTS_US = (200_000, 2_000_000, 6_000_000)
_GAPS_US = (0, 10_000, 200_000, 500_000, 1_000_000, 3_000_000)
# So long before what it is to strike a mishap begins.
_AHEAD_US = (0, 1_000, 20_000)
# How many times in a row a mishap may be drawn that would strike nothing, each for a little later than the one before;
# and how many of one kind.
_TRIES = 12
_TRIES_OF_A_KIND = 3
_LATER_US = 100_000
# How many records may lie in a request.
_RECORDS_PER_REQUEST = 3
# How much later than planned a request may come: one that is sent by the clock, and one that waits for others.
_LATE_US = 500_000
_CALLED_LATE_US = 4_000_000
# Until all replicas are in sync after what was the matter with brokers is over, and topics of the brokers' own exist.
_RECOVERED_US = 2_000_000
# What may lead to a broker being given up: in mild weather none of it together with a power cut.
_TROUBLES = (
    "kill",
    "pause",
    "restart",
    "power_off",
    "cut_link",
    "isolate",
    "lose",
    "stall",
    "drift_clock",
    "stop_controller",
    "full_disk",
    "slow_disk",
    "failing_disk",
)
_DOWNFALLS = ("kill", "restart", "power_off", "corrupt", "cut_power")


def is_trouble(mishap: Mishap) -> bool:
    """Whether a broker may be given up for it."""
    if mishap.kind == "drift_clock" and "client" in mishap.details:
        return False
    return mishap.kind in _TROUBLES or (mishap.kind == "rule" and mishap.details["kind"] in CRASHES)


def stops_controller(mishap: Mishap) -> bool:
    """Whether there is no controller for as long as it lasts."""
    return mishap.kind == "stop_controller" or bool(mishap.details.get("controller"))


class _Place:
    """What mishaps can befall, and what those drawn so far have left of it."""

    def __init__(self, chance: Chance, plan: Plan) -> None:
        self.chance = chance
        self.timetable = Timetable(plan)
        self.brokers = range(plan.brokers)
        self.topics = plan.topics
        self.producers = [each.name for each in plan.producers]
        self.readers = {each.name: each.topic for each in plan.readers}
        self.is_severe = plan.weather == SEVERE_WEATHER
        self._session_us = 1000 * plan.settings.get("broker_session_timeout_ms", 9_000)
        self._drawn = list(plan.mishaps)

    def note(self, mishap: Mishap) -> None:
        """It is part of the plan."""
        self._drawn.append(mishap)

    def in_force(self, at_us: int, *kinds: str) -> list[Mishap]:
        """Those of these kinds that last at that time."""
        return [
            each for each in self._drawn if each.kind in kinds and each.at_us <= at_us <= each.at_us + each.lasts_us
        ]

    def up(self, at_us: int, *also: str) -> list[int]:
        """The brokers that are not down then; `also`: nor struck by these kinds."""
        down = self.in_force(at_us, *_DOWNFALLS, *also)
        return [each for each in self.brokers if not any(m.details.get("broker", each) == each for m in down)]

    def stops_controller(self, at_us: int) -> bool:
        """Whether there is no controller then."""
        return any(map(stops_controller, self.in_force(at_us, "stop_controller", "cut_power")))

    def is_free(self, mishap: Mishap) -> bool:
        """Whether this may happen when it is meant to: in mild weather no trouble beside a power cut."""
        if self.is_severe or not is_trouble(mishap):
            return True
        at_us = mishap.at_us
        for each in self._drawn:
            if each.kind == "power_off":
                unnoticed_us = min(each.lasts_us, self._session_us) + _RECOVERED_US
                if each.at_us <= at_us <= each.at_us + unnoticed_us:
                    return False
            if mishap.kind == "power_off" and is_trouble(each):
                # A broker that a rule has struck is down for as long again.
                lasts_us = each.lasts_us * (2 if each.kind == "rule" else 1)
                if each.at_us <= at_us <= each.at_us + lasts_us + _RECOVERED_US:
                    return False
                # Nor may it come so soon that the other one would be put off.
                if at_us <= each.at_us <= at_us + min(mishap.lasts_us, self._session_us) + _RECOVERED_US:
                    return False
        return True

    def await_sending(self, mishap: Mishap, producer: str | None = None) -> Sending | None:
        """Have the mishap begin when something is sent; None where nothing is."""
        sending = self.timetable.next_sending(mishap.at_us, self.chance, producer)
        if sending is not None:
            begins_us = sending.at_us - self.chance.choice(_AHEAD_US)
            mishap.at_us = max(0, begins_us, mishap.at_us if mishap.at_us <= sending.at_us else 0)
        return sending

    def await_requests(self, mishap: Mishap, api: str, topic: str | None, count: int) -> bool:
        """Have the mishap be in force when so many requests come; False where so many never do, or not soon enough."""
        moments = self.timetable.requests(api, topic)
        if api == "Produce" and count > 1:
            count *= _RECORDS_PER_REQUEST
        later = [at_us for at_us in moments if at_us >= mishap.at_us]
        if len(later) < count:
            if len(moments) < count:
                return False
            later = moments[self.chance.randrange(len(moments) - count + 1) :]
            mishap.at_us = max(0, later[0] - self.chance.choice(_AHEAD_US))
        come_us = later[count - 1] + (_LATE_US if api == "Produce" else _CALLED_LATE_US)
        mishap.lasts_us = max(mishap.lasts_us, come_us - mishap.at_us)
        return True


def _befall(place: _Place, mishap: Mishap, brokers: list[int], **details: Any) -> bool:
    """One of these brokers; False where there is none."""
    if not brokers:
        return False
    mishap.details = {"broker": place.chance.choice(brokers), **details}
    return True


def _rule(place: _Place, mishap: Mishap) -> bool:
    chance = place.chance
    kind, api = chance.choice(_RULES), chance.choice(_APIS)
    details: dict[str, Any] = {"every": chance.choice((1, 1, 2, 3, 5)), "times": chance.choice((1, 1, 5))}
    drawn = chance.random()
    if drawn < 0.2:
        kind, api = chance.choice(("refuse", "refuse_after_append")), "Produce"
        details["error"] = chance.choice(_ERRORS)
    elif drawn < 0.35:
        kind = chance.choice(CRASHES if place.is_severe else ("kill", "pause"))
        details |= {"moment": chance.choice(MOMENTS), "times": 1}
    elif kind in _DELAYED:
        details["delay_ms"] = chance.choice((5, 200, 700, 3_000))
    if api == "Produce" and chance.random() < 0.5:
        details["topic"] = chance.choice(place.topics).name
    mishap.details = {"kind": kind, "api": api, **details}
    if not place.await_requests(mishap, api, details.get("topic"), details["every"]):
        return False
    # So long a broker is down, too, that it strikes.
    return kind not in CRASHES or mishap.lasts_us <= _LASTS_US[-1]


def _kill(place: _Place, mishap: Mishap) -> bool:
    return _befall(place, mishap, place.up(mishap.at_us))


def _freeze(place: _Place, mishap: Mishap) -> bool:
    return _befall(place, mishap, place.up(mishap.at_us, "pause"))


def _power(place: _Place, mishap: Mishap) -> bool:
    return _befall(place, mishap, place.up(mishap.at_us), anywhere=place.is_severe)


def _cut_power(place: _Place, mishap: Mishap) -> bool:
    if place.chance.random() < _CONTROLLER_TOO_SHARE:
        mishap.details = {"controller": True}
    return True


def _corrupt(place: _Place, mishap: Mishap) -> bool:
    """What has just been written, to a log that is not synced at once."""
    chance = place.chance
    lazy = {each.name: each for each in place.topics if "flush_messages" not in each.settings}
    sending = place.timetable.next_sending(mishap.at_us, chance, topics=tuple(lazy))
    if sending is None:
        return False
    topic, partition = lazy[sending.topic], sending.partition
    mishap.at_us = sending.at_us + chance.choice((5_000, 50_000, 300_000))
    if partition is None:
        partition = chance.randrange(topic.partitions)
    first = place.timetable.leader(topic.name, partition)
    replicas = [(first + number) % len(place.brokers) for number in range(topic.replication_factor)]
    up = place.up(mishap.at_us, "pause", "isolate")
    return _befall(place, mishap, [each for each in replicas if each in up], topic=sending.topic, partition=partition)


def _link(place: _Place, mishap: Mishap) -> bool:
    """Followers hear of what the leader is sent; the controller hears of brokers once in a while."""
    chance = place.chance
    sending = place.await_sending(mishap)
    up = place.up(mishap.at_us, "pause")
    one = chance.choice(list(place.brokers)) if sending is None else place.timetable.leader_of(sending, place.chance)
    others = [each for each in (*up, CONTROLLER) if each != one]
    if one not in up:
        return False
    other = chance.choice(others)
    if other == CONTROLLER:
        mishap.lasts_us = max(mishap.lasts_us, _LASTS_US[1])
    mishap.details = {"one": one, "other": other, "silently": chance.random() < 0.5}
    return True


def _isolate(place: _Place, mishap: Mishap) -> bool:
    place.await_sending(mishap)
    return _befall(place, mishap, place.up(mishap.at_us, "pause"), silently=place.chance.random() < 0.5)


def _disk(place: _Place, mishap: Mishap) -> bool:
    place.await_sending(mishap)
    return _befall(place, mishap, place.up(mishap.at_us, "pause", "isolate"))


def _slow_disk(place: _Place, mishap: Mishap) -> bool:
    found = _disk(place, mishap)
    mishap.details["delay_us"] = place.chance.choice((5_000, 200_000, 1_500_000))
    return found


def _failing_disk(place: _Place, mishap: Mishap) -> bool:
    chance = place.chance
    operation = chance.choice(OPERATIONS)
    found = _disk(place, mishap)
    # Few reads come by the disk, as what is new is in memory, and few syncs.
    is_rare = operation != WRITE
    mishap.lasts_us = max(mishap.lasts_us, _LASTS_US[2 if is_rare else 1])
    mishap.details |= {"operation": operation, "every": 1 if is_rare else chance.choice((1, 1, 2, 5))}
    # As a power cut: in mild weather nothing of that kind may befall a broker that has what others lack.
    mishap.details["evicts"] = place.is_severe and operation == SYNC and chance.random() < 0.5
    return found


def _lose(place: _Place, mishap: Mishap) -> bool:
    chance = place.chance
    share, least_us = chance.choice(((0.01, 6_000_000), (0.1, 2_000_000), (0.3, 200_000)))
    place.await_sending(mishap)
    mishap.lasts_us, mishap.details = max(mishap.lasts_us, least_us), {"chance": share}
    return True


def _stall(place: _Place, mishap: Mishap) -> bool:
    chance = place.chance
    share, least_us = chance.choice(((0.02, 2_000_000), (0.1, 200_000)))
    place.await_sending(mishap)
    mishap.lasts_us = max(mishap.lasts_us, least_us)
    mishap.details = {"chance": share, "most_us": chance.choice((50_000, 2_000_000))}
    return True


def _client(place: _Place, mishap: Mishap) -> bool:
    """A client, or any, and a broker that it has something to say to."""
    chance = place.chance
    client = chance.choice([None, *place.producers, *place.readers])
    if client in place.readers:
        if not place.await_requests(mishap, "Fetch", None, 1):
            return False
        mishap.lasts_us = max(mishap.lasts_us, _LASTS_US[1])
        topic = next(each for each in place.topics if each.name == place.readers[client])
        leaders = [place.timetable.leader(topic.name, number) for number in range(topic.partitions)]
    else:
        sending = place.await_sending(mishap, client)
        leaders = list(place.brokers) if sending is None else [place.timetable.leader_of(sending, place.chance)]
    up = place.up(mishap.at_us, "pause")
    return _befall(place, mishap, [each for each in leaders if each in up], client=client)


def _drift(place: _Place, mishap: Mishap) -> bool:
    ppm = place.chance.choice((-500_000, -50_000, -200, 200, 50_000, 1_000_000))
    return _befall(place, mishap, [CONTROLLER, *place.brokers], ppm=ppm)


def _jump(place: _Place, mishap: Mishap) -> bool:
    jump_ms = place.chance.choice((-86_400_000, -60_000, 1_000, 60_000, 7_200_000))
    return _befall(place, mishap, list(place.brokers), jump_ms=jump_ms)


def _leader(place: _Place, mishap: Mishap) -> bool:
    """A partition that somebody else could lead, and somebody to say so."""
    at_us, chance = mishap.at_us, place.chance
    if place.stops_controller(at_us):
        return False
    down = len(place.brokers) - len(place.up(at_us, "pause", "isolate"))
    movable = [each for each in place.topics if each.replication_factor - down > 1]
    if movable and chance.random() < 0.6:
        topic: TopicPlan = chance.choice(movable)
        mishap.details = {"topic": topic.name, "partition": chance.randrange(topic.partitions)}
        return True
    name, api = chance.choice(((TRANSACTIONS_TOPIC, "InitProducerId"), (OFFSETS_TOPIC, "TxnOffsetCommit")))
    mishap.details = {"topic": name, "partition": 0}
    # The brokers make it when somebody needs it.
    return down <= 1 and any(each + _RECOVERED_US <= at_us for each in place.timetable.requests(api))


def _stop_controller(place: _Place, mishap: Mishap) -> bool:
    return not place.stops_controller(mishap.at_us)


# Fills in the details, and may move or stretch it; False where it would strike nothing.
_DRAWN: dict[str, Callable[[_Place, Mishap], bool]] = {
    "rule": _rule,
    "kill": _kill,
    "pause": _freeze,
    "restart": _freeze,
    "power_off": _power,
    "cut_power": _cut_power,
    "corrupt": _corrupt,
    "cut_link": _link,
    "isolate": _isolate,
    "lose": _lose,
    "unplug": _client,
    "half_open": _client,
    "stall": _stall,
    "full_disk": _disk,
    "slow_disk": _slow_disk,
    "failing_disk": _failing_disk,
    "drift_clock": _drift,
    "jump_clock": _jump,
    "move_leader": _leader,
    "stop_controller": _stop_controller,
}
KINDS = tuple(_DRAWN)
SEVERE = ("cut_power", "corrupt")
# Drawn for themselves (`draw`), so that what other seeds draw stays as it was.
_APART = ("failing_disk",)
MILD = tuple(kind for kind in KINDS if kind not in SEVERE)


def draw_times(chance: Chance, count: int) -> list[int]:
    """When so many mishaps begin, one after the other."""
    at_us, times = 0, []
    for _ in range(count):
        at_us += chance.choice(_GAPS_US)
        times.append(at_us)
    return times


def draw_mishaps(chance: Chance, times: list[int], plan: Plan, kind: str | None = None) -> list[Mishap]:
    """A mishap for each of these times, of the few kinds that this run has; the plan is ready but for them.

    `kind`: of this one alone, as far as it has something to strike.
    """
    place = _Place(chance, plan)
    if kind is not None:
        return _drawn_of(place, [kind], times)
    share = chance.choice((0.15, 0.3, 0.6))
    kinds = [each for each in (KINDS if place.is_severe else MILD) if each not in _APART]
    allowed = [each for each in kinds if chance.random() < share]
    if not allowed or chance.random() < _RULES_SHARE:
        allowed += ["rule"] * (len(allowed) // 3 + 1)
    return _drawn_of(place, allowed, times)


def _drawn_of(place: _Place, allowed: list[str], times: list[int]) -> list[Mishap]:
    drawn = []
    for at_us in times:
        drawn.append(_drawn(place, allowed, at_us))
        place.note(drawn[-1])
    return drawn


def _drawn(place: _Place, allowed: list[str], at_us: int) -> Mishap:
    """A mishap that has something to strike: of one of these kinds, if any of them has it soon."""
    chance = place.chance
    for attempt in range(_TRIES):
        if attempt % _TRIES_OF_A_KIND == 0:
            kind = chance.choice(allowed)
        mishap = Mishap(kind, at_us + attempt * attempt * _LATER_US, chance.choice(_LASTS_US))
        if _DRAWN[kind](place, mishap) and place.is_free(mishap):
            return mishap
    mishap = Mishap("jump_clock", at_us, chance.choice(_LASTS_US))
    _jump(place, mishap)
    return mishap
