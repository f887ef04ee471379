"""What happens in one simulated run, spelled out: topics, who writes and reads what, and what goes wrong when.

A seed is drawn into a plan (`draw`), a plan is run (`run`). Because the plan says everything but the world's own
chance (delays, torn writes), a finding can be made smaller by leaving out parts of its plan (`shrink`), kept as a file
and run again. Plain data: `to_dict` and `from_dict` are inverse to each other, by way of JSON.

Times are simulated microseconds from the start of the weather, when all topics exist.

A plan of another version is run as it was meant or not at all: what is in it and not known here, or missing, is refused
by name (`from_dict`), whether its writer thought of raising FORMAT or not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ottla.broker.settings import BrokerSettings
from ottla.broker.topic_settings import topic_config_fault
from ottla.errors import ConfigError
from ottla.faults.rule import FaultRule
from ottla.producer.settings import ProducerSettings
from ottla.reader.settings import ReaderSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
FORMAT = 1

# In mild weather nothing happens that Kafka does not survive without a sync: what all acked must be there. In severe
# weather power fails anywhere, logs are spoilt and topics may elect unclean leaders: what is missing must be put down
# to that.
MILD_WEATHER, SEVERE_WEATHER = _WEATHERS = "mild", "severe"

# What a producer does, in turn.
SEND, PAUSE, FLUSH = "send", "pause", "flush"
BEGIN, OFFSETS, COMMIT, ABORT = "begin", "offsets", "commit", "abort"
# It dies where it stands, and is born again with the same settings after `pause_us`.
CRASH = "crash"
# Another instance takes over at once; the old one goes on with what it has after `pause_us`, not knowing.
REPLACE = "replace"
ACTS = (SEND, PAUSE, FLUSH, BEGIN, OFFSETS, COMMIT, ABORT, CRASH, REPLACE)


@dataclass(slots=True)
class Act:
    """One thing a producer does; `number` is the record's, unique in the plan (SEND) or the offset (OFFSETS)."""

    do: str
    number: int = -1
    topic: str = ""
    partition: int | None = None
    key: int | None = None
    value_bytes: int = 0
    pause_us: int = 0


@dataclass(slots=True)
class TopicPlan:
    """A topic; settings under Kafka's names with underscores."""

    name: str
    partitions: int = 1
    replication_factor: int = 3
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ProducerPlan:
    """A producer and what it does; with `transactional_id` among the settings its records lie in transactions."""

    name: str
    settings: dict[str, Any]
    acts: list[Act]


@dataclass(slots=True)
class ReaderPlan:
    """A reader that reads all partitions of a topic to their ends, again and again, `pause_us` between the rounds."""

    name: str
    topic: str
    isolation_level: str
    pause_us: int


@dataclass(slots=True)
class Mishap:
    """What goes wrong `at_us`, for `lasts_us` where it lasts; `details` depend on the kind, see `weather`."""

    kind: str
    at_us: int
    lasts_us: int = 0
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Plan:
    """All of a run."""

    seed: int
    brokers: int
    through_bytes: bool
    settings: dict[str, Any]
    topics: list[TopicPlan]
    producers: list[ProducerPlan]
    readers: list[ReaderPlan]
    mishaps: list[Mishap]
    weather: str = MILD_WEATHER
    format: int = FORMAT

    @property
    def records(self) -> int:
        """How many records are to be sent."""
        return sum(act.do == SEND for producer in self.producers for act in producer.acts)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; ConfigError for a plan of another format or version, or for what is none."""
        found = data.get("format") if isinstance(data, dict) else None
        if found != FORMAT:
            raise ConfigError(
                f"this plan has format {found!r}, and this ottla runs format {FORMAT}; "
                "run it with the version that wrote it, or draw the seed again"
            )
        try:
            given = dict(data)
            given["topics"] = [_checked(TopicPlan(**each)) for each in given["topics"]]
            given["producers"] = [
                _checked(ProducerPlan(**each | {"acts": [_checked_act(Act(**act)) for act in each["acts"]]}))
                for each in given["producers"]
            ]
            given["readers"] = [_checked(ReaderPlan(**each)) for each in given["readers"]]
            given["mishaps"] = [_checked_mishap(Mishap(**each)) for each in given["mishaps"]]
            given = {each.name: given.pop(each.name) for each in fields(cls)} | given
            plan = _checked(cls(**given))
            if plan.weather not in _WEATHERS:
                raise TypeError(f"Plan.weather is {plan.weather!r} and must be one of {', '.join(_WEATHERS)}")
            _check_settings(plan)
            return plan
        except (KeyError, TypeError, ConfigError) as error:
            told = f"there is no {error} in it" if isinstance(error, KeyError) else str(error).rstrip(".")
            raise ConfigError(
                f"this is no plan of a simulation, or one of another version: {told}; run it with the version that "
                "wrote it, or draw the seed again"
            ) from error


def _check_settings(plan: Plan) -> None:
    """ConfigError for settings that brokers, topics, producers or readers do not have, or not with this value."""
    BrokerSettings(**plan.settings)
    for topic in plan.topics:
        configs = [(name.replace("_", "."), str(value)) for name, value in topic.settings.items()]
        if fault := topic_config_fault(configs):
            raise ConfigError(fault)
    nowhere = {"bootstrap_servers": "nobody:9092"}
    for producer in plan.producers:
        ProducerSettings(nowhere | producer.settings)
    for reader in plan.readers:
        ReaderSettings(nowhere | {"isolation_level": reader.isolation_level})


# What JSON may hold for a field of this annotation; lists are made here.
_TYPES: dict[Any, tuple[type, ...]] = {
    "int": (int,),
    "int | None": (int, type(None)),
    "str": (str,),
    "bool": (bool,),
    "dict[str, Any]": (dict,),
}


def _checked(part: T) -> T:
    """The part, once each of its fields is of its type; TypeError otherwise."""
    for each in fields(part):
        value, allowed = getattr(part, each.name), _TYPES.get(each.type)
        if allowed is not None and type(value) not in allowed:
            raise TypeError(f"{type(part).__name__}.{each.name} is {value!r} and must be {each.type}")
    return part


def _checked_act(act: Act) -> Act:
    if act.do not in ACTS:
        raise TypeError(f"no producer knows how to {act.do!r}, only how to {', '.join(ACTS)}")
    return _checked(act)


# What belongs to a mishap of each kind, `forecast` says what it means; a rule has the fields of `FaultRule`.
DETAILS: dict[str, tuple[tuple[str, ...], ...]] = {
    "kill": (("broker",),),
    "pause": (("broker",),),
    "restart": (("broker",),),
    "power_off": (("broker", "anywhere"),),
    "cut_power": ((),),
    "corrupt": (("broker", "topic", "partition"),),
    "cut_link": (("one", "other", "silently"),),
    "isolate": (("broker", "silently"),),
    "lose": (("chance",),),
    "unplug": (("broker", "client"),),
    "half_open": (("broker", "client"),),
    "stall": (("chance", "most_us"),),
    "full_disk": (("broker",),),
    "slow_disk": (("broker", "delay_us"),),
    "drift_clock": (("broker", "ppm"), ("client", "ppm")),
    "jump_clock": (("broker", "jump_ms"),),
    "move_leader": (("topic", "partition"),),
    "stop_controller": ((),),
}


def _checked_mishap(mishap: Mishap) -> Mishap:
    _checked(mishap)
    if mishap.kind == "rule":
        FaultRule(**mishap.details)
        return mishap
    allowed = DETAILS.get(mishap.kind)
    if allowed is None:
        raise TypeError(f"no mishap is called {mishap.kind!r}, only rule, {', '.join(DETAILS)}")
    if sorted(mishap.details) not in [sorted(names) for names in allowed]:
        known = " or ".join(", ".join(names) or "nothing" for names in allowed)
        found = ", ".join(mishap.details) or "nothing"
        raise TypeError(f"a mishap {mishap.kind!r} has the details {known}, not {found}")
    return mishap
