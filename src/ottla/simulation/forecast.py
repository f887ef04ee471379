"""What may go wrong, drawn from a seed: which kinds a run has at all, then so many mishaps of them, one after another.

| kind | details | what happens |
|---|---|---|
| `rule` | a `FaultRule` as a dictionary | single requests are struck (faults/rule.py), brokers in the midst of them |
| `kill` | `broker` | that broker dies, and is started again after `lasts_us` |
| `pause` | `broker` | it freezes |
| `restart` | `broker` | it is shut down in order |
| `power_off` | `broker`, `anywhere` | its power is cut; without `anywhere` only where everything is in sync |
| `cut_power` | | the power of the whole cluster, the controller's excepted |
| `corrupt` | `broker`, `topic`, `partition` | it dies, and a byte is wrong in what it had not synced of that log |
| `cut_link` | `one`, `other`, `silently` | two brokers, or a broker and the controller (-2), do not hear each other |
| `isolate` | `broker`, `silently` | no other broker and no controller hears it; clients do |
| `lose` | `chance` | some of what brokers and controller say to each other is lost |
| `unplug` | `broker`, `client` | what that client (None: any) and the broker say waits until it is over |
| `half_open` | `broker`, `client` | connections there are now lose everything for good; nobody is told |
| `stall` | `chance`, `most_us` | some messages are held up, and what is behind them on their connection |
| `full_disk` | `broker` | nothing can be written |
| `slow_disk` | `broker`, `delay_us` | what makes it write is late |
| `drift_clock` | `broker` (or -2) or `client`, `ppm` | its clock runs too fast or too slow |
| `jump_clock` | `broker`, `jump_ms` | its date is another |
| `move_leader` | `topic`, `partition` | another replica in sync leads; for internal topics: a coordinator moves |
| `stop_controller` | | the controller loses power while it writes, and comes back from its disk after `lasts_us` |

In mild weather nothing happens that Kafka does not survive without a sync; `SEVERE` kinds are drawn in severe weather
only. Swarm testing (Groce and others, ISSTA 2012): a run has few of the kinds, so that they do not hide each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.broker.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.faults.rule import CRASHES, MOMENTS
from ottla.simulation.chance import Chance
from ottla.simulation.interbroker import CONTROLLER
from ottla.simulation.plan import SEVERE_WEATHER, Mishap, TopicPlan

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
_LASTS_US = (200_000, 2_000_000, 6_000_000)
_GAPS_US = (0, 10_000, 200_000, 1_000_000, 3_000_000, 6_000_000)


class _Place:
    """What mishaps can befall."""

    def __init__(self, chance: Chance, brokers: int, topics: list[TopicPlan], clients: list[str], severe: bool) -> None:
        self.chance = chance
        self.brokers = brokers
        self.topics = topics
        self.clients = clients
        self.is_severe = severe

    def broker(self) -> dict[str, Any]:
        return {"broker": self.chance.randrange(self.brokers)}

    def partition(self) -> dict[str, Any]:
        topic = self.chance.choice(self.topics)
        return {"topic": topic.name, "partition": self.chance.randrange(topic.partitions)}


def _rule(place: _Place) -> dict[str, Any]:
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
    return {"kind": kind, "api": api, **details}


def _link(place: _Place) -> dict[str, Any]:
    one = place.chance.randrange(place.brokers)
    others = [each for each in (*range(place.brokers), CONTROLLER) if each != one]
    return {"one": one, "other": place.chance.choice(others), "silently": place.chance.random() < 0.5}


def _power(place: _Place) -> dict[str, Any]:
    return {**place.broker(), "anywhere": place.is_severe}


def _client(place: _Place) -> dict[str, Any]:
    return {**place.broker(), "client": place.chance.choice([None, *place.clients])}


def _leader(place: _Place) -> dict[str, Any]:
    if place.chance.random() < 0.6:
        return place.partition()
    return {"topic": place.chance.choice((TRANSACTIONS_TOPIC, OFFSETS_TOPIC)), "partition": 0}


def _drift(place: _Place) -> dict[str, Any]:
    broker = place.chance.choice((CONTROLLER, *range(place.brokers)))
    return {"broker": broker, "ppm": place.chance.choice((-500_000, -50_000, -200, 200, 50_000, 1_000_000))}


_DRAWN: dict[str, Callable[[_Place], dict[str, Any]]] = {
    "rule": _rule,
    "kill": _Place.broker,
    "pause": _Place.broker,
    "restart": _Place.broker,
    "power_off": _power,
    "cut_power": lambda place: {},
    "corrupt": lambda place: {**place.broker(), **place.partition()},
    "cut_link": _link,
    "isolate": lambda place: {**place.broker(), "silently": place.chance.random() < 0.5},
    "lose": lambda place: {"chance": place.chance.choice((0.01, 0.1, 0.3))},
    "unplug": _client,
    "half_open": _client,
    "stall": lambda place: {
        "chance": place.chance.choice((0.02, 0.1)),
        "most_us": place.chance.choice((50_000, 2_000_000)),
    },
    "full_disk": _Place.broker,
    "slow_disk": lambda place: {**place.broker(), "delay_us": place.chance.choice((5_000, 200_000, 1_500_000))},
    "drift_clock": _drift,
    "jump_clock": lambda place: {
        **place.broker(),
        "jump_ms": place.chance.choice((-86_400_000, -60_000, 1_000, 60_000, 7_200_000)),
    },
    "move_leader": _leader,
    "stop_controller": lambda place: {},
}
KINDS = tuple(_DRAWN)
SEVERE = ("cut_power", "corrupt")
MILD = tuple(kind for kind in KINDS if kind not in SEVERE)


def draw_mishaps(
    chance: Chance, count: int, *, brokers: int, topics: list[TopicPlan], clients: list[str], weather: str
) -> list[Mishap]:
    """So many mishaps, of the few kinds that this run has, one after the other."""
    is_severe = weather == SEVERE_WEATHER
    place = _Place(chance, brokers, topics, clients, is_severe)
    share = chance.choice((0.15, 0.3, 0.6))
    allowed = [kind for kind in (KINDS if is_severe else MILD) if chance.random() < share]
    if not allowed or chance.random() < _RULES_SHARE:
        allowed += ["rule"] * (len(allowed) // 3 + 1)
    at_us, drawn = 0, []
    for _ in range(count):
        at_us += chance.choice(_GAPS_US)
        kind = chance.choice(allowed)
        drawn.append(Mishap(kind, at_us, chance.choice(_LASTS_US), _DRAWN[kind](place)))
    return drawn
