"""What may stand in a plan: one that no run could carry out as it says is refused, by its place and its value.

A run would otherwise break on it, which looks like a finding, or leave it out without a word. What only another version
knows is told apart from values that somebody got wrong: the advice is another.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.broker.settings import BrokerSettings
from ottla.broker.topic_names import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, topic_name_fault
from ottla.broker.topic_settings import topic_config_fault
from ottla.errors import ConfigError
from ottla.faults.rule import FaultRule
from ottla.host.links import CONTROLLER
from ottla.producer.settings import ProducerSettings
from ottla.protocol.messages import MODULES
from ottla.reader.settings import ReaderSettings
from ottla.simulation.disk import OPERATIONS
from ottla.simulation.plan import (
    ABORT,
    ACTS,
    BEGIN,
    COMMIT,
    FORMAT,
    OFFSETS,
    SEND,
    WEATHERS,
    Act,
    Mishap,
    Plan,
    ProducerPlan,
    ReaderPlan,
    ServicePlan,
    TopicPlan,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


class May(NamedTuple):
    """What a value may be, as the end of "must be ...", and whether it is."""

    words: str
    holds: Callable[[Any], bool]


def _number(least: int, most: int) -> May:
    return May(f"a whole number from {least} to {most}", lambda value: type(value) is int and least <= value <= most)


def _one_of(values: Sequence[Any]) -> May:
    # Of the same type, too: to Python True is 1.
    known = [(type(each), each) for each in values]
    return May(f"one of {', '.join(map(repr, values))}", lambda value: (type(value), value) in known)


def _none_or(may: May) -> May:
    return May(f"None or {may.words}", lambda value: value is None or may.holds(value))


# Whoever rests, or is kept waiting, for longer looks as if it never came to an end.
_REST_US = _number(0, 60_000_000)
# A producer may idle for longer (two days): the run waits so much longer for its end.
_IDLE_US = _number(0, 172_800_000_000)
_TIME_US = _number(0, 3_600_000_000)
_BYTES = _number(0, 1 << 20)
_INT64 = _number(0, (1 << 63) - 1)
_BROKERS = _number(1, 20)
_PARTITIONS = _number(1, 100)
_TEXT = May("a text", lambda value: type(value) is str and bool(value) and value.isprintable())
_PLAIN = May("a text, a number, True or False", lambda value: isinstance(value, str | bool | int | float))
_HEADERS = May("pairs of a text and a text or None", lambda value: all(map(_is_header, value)))
_CHANCE = May("a number from 0 to 1", lambda value: type(value) in (int, float) and 0 <= value <= 1)


def _is_header(pair: Any) -> bool:
    # What is not printable need not have any bytes: half a surrogate pair.
    texts = (
        isinstance(pair, list)
        and len(pair) == 2
        and all(type(text) is str and text.isprintable() for text in pair if text is not None)
    )
    return texts and pair[0] is not None


# What a detail may be in this plan, beside these details.
Allowed = Callable[[Plan, dict[str, Any]], May]


def partitions_of(plan: Plan) -> dict[str, int]:
    """How many partitions each topic has, the brokers' own among them."""
    settings = BrokerSettings(**plan.settings)
    return {topic.name: topic.partitions for topic in plan.topics} | {
        OFFSETS_TOPIC: settings.offsets_topic_num_partitions,
        TRANSACTIONS_TOPIC: settings.transaction_state_log_num_partitions,
    }


def _always(may: May) -> Allowed:
    return lambda plan, details: may


def _broker(plan: Plan, details: dict[str, Any]) -> May:
    return _number(0, plan.brokers - 1)


def _broker_or_controller(plan: Plan, details: dict[str, Any]) -> May:
    # From a link's one end to itself there is none.
    return _one_of([each for each in (CONTROLLER, *range(plan.brokers)) if each != details.get("one")])


def _client(plan: Plan, details: dict[str, Any]) -> May:
    return _one_of([each.name for each in plan.producers] + [each.name for each in plan.readers])


def _any_broker(plan: Plan, details: dict[str, Any]) -> May:
    return _none_or(_broker(plan, details))


def _any_client(plan: Plan, details: dict[str, Any]) -> May:
    return _none_or(_client(plan, details))


def _topic(plan: Plan, details: dict[str, Any]) -> May:
    return _one_of(list(partitions_of(plan)))


def _partition(plan: Plan, details: dict[str, Any]) -> May:
    return _number(0, partitions_of(plan)[details["topic"]] - 1)


_YES_OR_NO = _always(_one_of([False, True]))
_SHARE = _always(_CHANCE)
_OPERATION = _always(_one_of(OPERATIONS))
_EVERY = _always(_number(1, 1_000_000))
_LATE_US = _always(_REST_US)
# A clock that stands still, or runs backwards, would never come to anything.
_PPM = _always(_number(-900_000, 9_000_000))
_JUMP_MS = _always(_number(-365 * 86_400_000, 365 * 86_400_000))

# What belongs to a mishap of each kind and what it may be, a topic before its partition; `forecast` says what it means.
DETAILS: dict[str, tuple[dict[str, Allowed], ...]] = {
    "kill": ({"broker": _broker},),
    "pause": ({"broker": _broker},),
    "restart": ({"broker": _broker},),
    "power_off": ({"broker": _broker, "anywhere": _YES_OR_NO},),
    "cut_power": ({}, {"controller": _YES_OR_NO}),
    "corrupt": ({"broker": _broker, "topic": _topic, "partition": _partition},),
    "cut_link": ({"one": _broker, "other": _broker_or_controller, "silently": _YES_OR_NO},),
    "isolate": ({"broker": _broker, "silently": _YES_OR_NO},),
    "lose": ({"chance": _SHARE},),
    "unplug": ({"broker": _broker, "client": _any_client},),
    "half_open": ({"broker": _any_broker, "client": _any_client},),
    "stall": ({"chance": _SHARE, "most_us": _LATE_US},),
    "full_disk": ({"broker": _broker},),
    "slow_disk": ({"broker": _broker, "delay_us": _LATE_US},),
    "failing_disk": ({"broker": _broker, "operation": _OPERATION, "every": _EVERY, "evicts": _YES_OR_NO},),
    "drift_clock": ({"broker": _broker_or_controller, "ppm": _PPM}, {"client": _client, "ppm": _PPM}),
    "jump_clock": ({"broker": _broker, "jump_ms": _JUMP_MS},),
    "move_leader": ({"topic": _topic, "partition": _partition},),
    "stop_controller": ({},),
}
# A rule has the fields of `FaultRule`, which knows of no plan.
_RULE: dict[str, Allowed] = {
    "api": _always(_one_of([name for _, name in MODULES.values()])),
    "topic": _topic,
    "partition": _partition,
    "broker_id": _broker,
    "delay_ms": _always(_number(1, 60_000)),
    "error": _always(_number(-1, 200)),
}


def plan_of(data: Any) -> Plan:
    """The plan that `Plan.to_dict` wrote; ConfigError for one of another version, or that cannot be carried out."""
    found = data.get("format") if isinstance(data, dict) else None
    if found != FORMAT:
        raise ConfigError(
            f"this plan has format {_shown(found)}, and this ottla runs format {FORMAT}; "
            "run it with the version that wrote it, or draw the seed again"
        )
    try:
        plan = _plan(data)
    except (KeyError, TypeError, ConfigError) as error:
        raise ConfigError(
            f"this is no plan of a simulation, or one of another version: {_told(error)}; run it with the version that "
            "wrote it, or draw the seed again"
        ) from error
    for fault in _faults(plan):
        raise ConfigError(f"this plan cannot be run: {fault}")
    return plan


def mishap_fault(plan: Plan, mishap: Mishap) -> str | None:
    """None where this may befall the plan, otherwise what of it may not."""
    return next(_mishap_faults(plan, mishap), None)


# ---- what this version knows ------------------------------------------------------------------------------------


def _plan(data: dict[str, Any]) -> Plan:
    given = dict(data)
    given["topics"] = _made(given, "topics", _topic_plan)
    given["producers"] = _made(given, "producers", _producer_plan)
    given["readers"] = _made(given, "readers", _reader_plan)
    given["mishaps"] = _made(given, "mishaps", _mishap)
    given["service"] = _made(given, "service", lambda item: _checked(ServicePlan(**item)))
    # The optional ones must be there, too: they were not always.
    given = {each.name: given.pop(each.name) for each in fields(Plan)} | given
    plan = _checked(Plan(**given))
    if plan.weather not in WEATHERS:
        raise TypeError(f"Plan.weather is {_shown(plan.weather)} and must be one of {', '.join(WEATHERS)}")
    BrokerSettings(**plan.settings)
    return plan


def _made(data: dict[str, Any], name: str, make: Callable[[dict[str, Any]], T]) -> list[T]:
    """The parts of this name; TypeError says which of them cannot be made."""
    items = data[name]
    if type(items) is not list:
        raise TypeError(f"{name} is {_shown(items)} and must be a list")
    made = []
    for place, item in _placed(name, items):
        try:
            if type(item) is not dict:
                raise TypeError(f"{_shown(item)} must be an object")
            made.append(make(item))
        except (KeyError, TypeError, ConfigError) as error:
            raise TypeError(f"{place}: {_told(error)}") from error
    return made


def _placed(name: str, items: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for number, item in enumerate(items, 1):
        yield f"{name.removesuffix('s')} {number} of {len(items)}", item


def _told(error: Exception) -> str:
    return f"there is no {error} in it" if isinstance(error, KeyError) else str(error).rstrip(".")


def _topic_plan(data: dict[str, Any]) -> TopicPlan:
    topic = _checked(TopicPlan(**data))
    if fault := topic_config_fault((name.replace("_", "."), str(value)) for name, value in topic.settings.items()):
        raise ConfigError(fault)
    return topic


_NOWHERE = {"bootstrap_servers": "nobody:9092"}


def _producer_plan(data: dict[str, Any]) -> ProducerPlan:
    producer = _checked(ProducerPlan(**data | {"acts": _made(data, "acts", _act)}))
    ProducerSettings(_NOWHERE | producer.settings)
    return producer


def _act(data: dict[str, Any]) -> Act:
    act = _checked(Act(**data))
    if act.do not in ACTS:
        raise TypeError(f"no producer knows how to {_shown(act.do)}, only how to {', '.join(ACTS)}")
    return act


def _reader_plan(data: dict[str, Any]) -> ReaderPlan:
    reader = _checked(ReaderPlan(**data))
    ReaderSettings(_NOWHERE | {"isolation_level": reader.isolation_level})
    return reader


def _mishap(data: dict[str, Any]) -> Mishap:
    mishap = _checked(Mishap(**data))
    if mishap.kind == "rule":
        FaultRule(**mishap.details)
        return mishap
    allowed = DETAILS.get(mishap.kind)
    if allowed is None:
        raise TypeError(f"no mishap is called {_shown(mishap.kind)}, only rule, {', '.join(DETAILS)}")
    if sorted(mishap.details) not in [sorted(names) for names in allowed]:
        known = " or ".join(", ".join(names) or "nothing" for names in allowed)
        found = ", ".join(mishap.details) or "nothing"
        raise TypeError(f"a mishap {mishap.kind!r} has the details {known}, not {found}")
    return mishap


# What JSON may hold for a field of this annotation; lists are made here.
_TYPES: dict[Any, tuple[type, ...]] = {
    "int": (int,),
    "int | None": (int, type(None)),
    "str": (str,),
    "bool": (bool,),
    "dict[str, Any]": (dict,),
    "list[list[str | None]]": (list,),
}


def _checked(part: T) -> T:
    """The part, once each of its fields is of its type; TypeError otherwise."""
    for each in fields(part):
        value, allowed = getattr(part, each.name), _TYPES.get(each.type)
        if allowed is not None and type(value) not in allowed:
            raise TypeError(f"{type(part).__name__}.{each.name} is {_shown(value)} and must be {each.type}")
    return part


def _shown(value: Any) -> str:
    """A value as a message has it: whatever a file holds, in few words."""
    return reprlib.repr(value)


# ---- what can be carried out ------------------------------------------------------------------------------------


def _faults(plan: Plan) -> Iterator[str]:
    """What is wrong, and where."""
    yield from _wrong(plan, {"seed": _INT64, "brokers": _BROKERS})
    yield from _setting_faults(plan.settings)
    names: list[str] = []
    for place, topic in _placed("topics", plan.topics):
        yield from _at(place, _topic_faults(plan, topic, names))
    names, records = [], dict[int, tuple[str, Act]]()
    for place, producer in _placed("producers", plan.producers):
        yield from _at(place, _name_faults(producer.name, names))
        yield from _at(place, _producer_faults(plan, producer, records))
    for place, reader in _placed("readers", plan.readers):
        yield from _at(place, _name_faults(reader.name, names))
        topics = _one_of([topic.name for topic in plan.topics])
        yield from _at(place, _wrong(reader, {"topic": topics, "pause_us": _REST_US}))
    taken: list[int] = []
    for place, service in _placed("service", plan.service):
        yield from _at(place, _service_faults(plan, service, taken))
    for place, mishap in _placed("mishaps", plan.mishaps):
        yield from _at(f"{place}, {mishap.kind!r}", _mishap_faults(plan, mishap))


def _at(place: str, faults: Iterator[str]) -> Iterator[str]:
    return (f"{place}: {fault}" for fault in faults)


def _wrong(part: Any, allowed: dict[str, May]) -> Iterator[str]:
    """Each of these fields whose value may not be."""
    for name, may in allowed.items():
        value = getattr(part, name)
        if not may.holds(value):
            yield _must(name, value, may)


def _must(name: str, value: Any, may: May) -> str:
    return f"{name} is {_shown(value)} and must be {may.words}"


def _name_faults(name: str, taken: list[str]) -> Iterator[str]:
    if not _TEXT.holds(name):
        yield _must("name", name, _TEXT)
    if name in taken:
        yield f"name is {_shown(name)}, as that of one before it, and must be another"
    taken.append(name)


def _setting_faults(settings: dict[str, Any]) -> Iterator[str]:
    """What is spelt or written so that brokers and clients understand it, and the judges of a run do not."""
    for name, value in settings.items():
        if "." in name:
            yield f"the setting {name} must be written {name.replace('.', '_')}"
        elif name == "transactional_id" and not _TEXT.holds(value):
            yield _must(f"the setting {name}", value, _TEXT)
        elif not _PLAIN.holds(value):
            yield _must(f"the setting {name}", value, _PLAIN)
        elif name != "transactional_id" and isinstance(value, str) and _is_no_word(value):
            yield f"the setting {name} is the text {_shown(value)} and must be written without quotes"


def _is_no_word(value: str) -> bool:
    return value.strip().lower() in ("true", "false") or not any(map(str.isalpha, value))


def _topic_faults(plan: Plan, topic: TopicPlan, taken: list[str]) -> Iterator[str]:
    if topic.name in INTERNAL_TOPICS:
        yield f"the brokers make {topic.name} themselves, and name must be another"
    if fault := topic_name_fault(topic.name):
        yield fault
    yield from _name_faults(topic.name, taken)
    yield from _wrong(topic, {"partitions": _PARTITIONS, "replication_factor": _number(1, plan.brokers)})
    yield from _setting_faults(topic.settings)


def _service_faults(plan: Plan, service: ServicePlan, taken: list[int]) -> Iterator[str]:
    free = [each for each in range(plan.brokers) if each not in taken]
    yield from _wrong(service, {"broker": _one_of(free), "least_us": _REST_US})
    taken.append(service.broker)
    if not service.least_us <= service.most_us <= 60_000_000:
        yield _must("most_us", service.most_us, May("from least_us to 60000000", bool))


def _producer_faults(plan: Plan, producer: ProducerPlan, records: dict[int, tuple[str, Act]]) -> Iterator[str]:
    yield from _setting_faults(producer.settings)
    partitions = {topic.name: topic.partitions for topic in plan.topics}
    for place, act in _placed("acts", producer.acts):
        yield from _at(f"{place}, {act.do!r}", _act_faults(act, partitions, producer))
        # The same record may be handed over again, as by an application that starts anew; not within transactions,
        # where its number is to tell of which one it is.
        again = act.do == SEND and act.number in records
        if again and ("transactional_id" in producer.settings or records[act.number] != (producer.name, act)):
            yield f"{place}, {act.do!r}: number is {act.number}, as that of a record before it, and must be another"
        if act.do == SEND:
            records[act.number] = producer.name, act


def _act_faults(act: Act, partitions: dict[str, int], producer: ProducerPlan) -> Iterator[str]:
    yield from _wrong(act, {"pause_us": _IDLE_US, "value_bytes": _BYTES, "headers": _HEADERS})
    if act.do in (BEGIN, OFFSETS, COMMIT, ABORT) and "transactional_id" not in producer.settings:
        yield f"{producer.name!r} has no transactions and must have a transactional_id among its settings for them"
    if act.do in (SEND, OFFSETS):
        yield from _wrong(act, {"topic": _one_of(list(partitions)), "number": _INT64})
        partition = _number(0, partitions[act.topic] - 1)
        yield from _wrong(act, {"partition": _none_or(partition) if act.do == SEND else partition})


def _mishap_faults(plan: Plan, mishap: Mishap) -> Iterator[str]:
    yield from _wrong(mishap, {"at_us": _TIME_US, "lasts_us": _TIME_US})
    details = mishap.details
    if mishap.kind == "rule":
        allowed = {name: may for name, may in _RULE.items() if details.get(name) is not None}
    else:
        allowed = next(each for each in DETAILS[mishap.kind] if sorted(each) == sorted(details))
    for name, may_be in allowed.items():
        may = may_be(plan, details)
        if not may.holds(details[name]):
            yield _must(name, details[name], may)
            return
