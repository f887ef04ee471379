"""What is wrong with a broker or its surroundings for a while, rather than with single requests.

| kind | on | what happens while it is in force |
|---|---|---|
| `full_disk` | `broker_id` | every append fails with ENOSPC |
| `slow_disk` | `broker_id` | what makes the broker write is handled `delay_ms` late, in order |
| `jump_clock` | `broker_id` | its clock shows `jump_ms` more (or less) |
| `cut_link` | `broker_id`, `other_id` | the two brokers cannot reach each other |
| `isolate` | `broker_id` | no other broker and no controller can reach it, nor it them; clients still can |
| `unplug` | `broker_id`, `client_id` | clients' connections, old and new, stay open and silent; healed, they go on |
| `half_open` | `broker_id`, `client_id` | the connections clients have now stay silent for good; new ones are well |
| `unclean_election` | `topic`, `partition` | whenever nobody may lead it, a living replica does that is not in sync |
| `move_leader` | `topic`, `partition` | another replica in sync leads it, at once and for good |
| `corrupt` | `topic`, `partition`, `offset`, `broker_id` | one byte of that batch in that file is flipped, for good |

A condition counts in `fired` what it really did: appends refused, requests and questions held back or lost, connections
silenced, clocks and bytes changed, leaders elected. `client_id` may be left out: then it is about all clients.
"""

from __future__ import annotations

from ottla.errors import ConfigError
from ottla.faults.described import Described

_WANTED: dict[str, tuple[str, ...]] = {
    "full_disk": ("broker_id",),
    "slow_disk": ("broker_id", "delay_ms"),
    "jump_clock": ("broker_id", "jump_ms"),
    "cut_link": ("broker_id", "other_id"),
    "isolate": ("broker_id",),
    "unplug": ("broker_id",),
    "half_open": ("broker_id",),
    "unclean_election": ("topic", "partition"),
    "move_leader": ("topic", "partition"),
    "corrupt": ("topic", "partition", "offset", "broker_id"),
}
_MAY_BE_GIVEN = {"unplug": ("client_id",), "half_open": ("client_id",)}
_TEXT = ("topic", "client_id")
CONDITION_KINDS = tuple(_WANTED)
_LEAST = {"broker_id": 1, "other_id": 1, "delay_ms": 1, "partition": 0, "offset": 0}


class Condition(Described):
    """One thing that is wrong for a while; the fields each kind wants stand in the table above. Raises ConfigError."""

    __slots__ = ("broker_id", "client_id", "delay_ms", "jump_ms", "kind", "offset", "other_id", "partition", "topic")

    def __init__(
        self,
        kind: str,
        broker_id: int | None = None,
        other_id: int | None = None,
        delay_ms: int | None = None,
        jump_ms: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        client_id: str | None = None,
    ) -> None:
        self.kind = kind
        self.broker_id = broker_id
        self.other_id = other_id
        self.delay_ms = delay_ms
        self.jump_ms = jump_ms
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.client_id = client_id
        self._check()

    def _check(self) -> None:
        wanted = _WANTED.get(self.kind)
        if wanted is None:
            raise ConfigError(f"fault kind {self.kind!r} is unknown; known kinds are {', '.join(CONDITION_KINDS)}")
        allowed = wanted + _MAY_BE_GIVEN.get(self.kind, ())
        for name in self.__slots__:
            value = getattr(self, name)
            if name == "kind" or (value is None and name not in wanted):
                continue
            if name not in allowed:
                raise ConfigError(f"fault {self.kind}: {name}={value!r} is not for it; it takes {', '.join(allowed)}")
            if name in _TEXT:
                if type(value) is not str or not value:
                    raise ConfigError(f"fault {self.kind}: {name}={value!r} must name a {name.removesuffix('_id')}")
            elif type(value) is not int or value < _LEAST.get(name, value):
                least = f" of at least {_LEAST[name]}" if name in _LEAST else ""
                raise ConfigError(f"fault {self.kind}: {name}={value!r} must be an integer{least}")
        if self.kind == "cut_link" and self.broker_id == self.other_id:
            raise ConfigError(f"fault cut_link: broker {self.broker_id} has no link to itself; name two brokers")

    def is_between(self, broker_id: int, other_id: int) -> bool:
        """Whether it keeps these two (ids of brokers, 0 for the controller) from reaching each other."""
        if self.kind == "isolate":
            return self.broker_id in (broker_id, other_id)
        if self.kind != "cut_link":
            return False
        return (self.broker_id, self.other_id) in ((broker_id, other_id), (other_id, broker_id))


class Conditions:
    """The conditions of one cluster, by id, and how often each has fired."""

    def __init__(self) -> None:
        self._all: list[Condition] = []
        self._in_force: dict[int, Condition] = {}
        self._fired: list[int] = []

    def add(self, condition: Condition) -> int:
        """Put a condition in force and return its id, from 1."""
        self._all.append(condition)
        self._fired.append(0)
        self._in_force[len(self._all)] = condition
        return len(self._all)

    def heal(self, condition_id: int) -> Condition | None:
        """Take it out of force and return it; None where it was out already."""
        return self._in_force.pop(condition_id, None)

    def fire(self, condition_id: int, times: int = 1) -> None:
        """Count what it really did."""
        self._fired[condition_id - 1] += times

    def fired(self, condition_id: int) -> int:
        """How often it has fired; ConfigError for an unknown id."""
        if not 1 <= condition_id <= len(self._all):
            raise ConfigError(f"there is no fault with id {condition_id}; ids come from add()")
        return self._fired[condition_id - 1]

    def of_broker(self, kind: str, broker_id: int) -> list[int]:
        """The ids of the conditions of this kind that are in force on a broker."""
        return [
            condition_id
            for condition_id, condition in self._in_force.items()
            if condition.kind == kind and condition.broker_id == broker_id
        ]

    def of_kind(self, kind: str) -> list[int]:
        """The ids of the conditions of this kind that are in force."""
        return [condition_id for condition_id, condition in self._in_force.items() if condition.kind == kind]

    def between(self, broker_id: int, other_id: int) -> int | None:
        """The id of a condition that parts these two (0: the controller), None where nothing does."""
        for condition_id, condition in self._in_force.items():
            if condition.is_between(broker_id, other_id):
                return condition_id
        return None

    def condition(self, condition_id: int) -> Condition:
        """The condition with this id, healed or not."""
        return self._all[condition_id - 1]

    @property
    def active(self) -> bool:
        """Whether any is in force."""
        return bool(self._in_force)
