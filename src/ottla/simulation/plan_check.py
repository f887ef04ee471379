"""Checks a plan: one that cannot be carried out as it says is refused; the error names field and value.

Otherwise the run would fail on it, which looks like a finding, or silently leave it out. A field of another version of
ottla and a wrong value get different messages, because what the user has to do differs.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.settings import BrokerSettings
from ottla.broker.topic_names import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, topic_name_fault
from ottla.broker.topic_settings import topic_config_fault
from ottla.errors import ConfigError
from ottla.faults.fault import fault_from
from ottla.faults.fields import May, one_of, whole
from ottla.producer.settings import ProducerSettings
from ottla.protocol.messages import MODULES
from ottla.reader.settings import ReaderSettings
from ottla.simulation.plan import (
    ABORT,
    ACTS,
    BEGIN,
    COMMIT,
    FORMAT,
    OFFSETS,
    SEND,
    SEVERITIES,
    Act,
    MovePlan,
    Plan,
    ProducerPlan,
    ReaderPlan,
    ServicePlan,
    TimedFault,
    TopicPlan,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def _none_or(may: May) -> May:
    return May(f"None or {may.words}", lambda value: value is None or may.holds(value))


# Longer pauses and service times would look as if the run never ended.
_REST_US = whole(0, 60_000_000)
# A producer's pause may be longer (two days): the run adds it to its time limit.
_IDLE_US = whole(0, 172_800_000_000)
_TIME_US = whole(0, 3_600_000_000)
_BYTES = whole(0, 1 << 20)
_INT64 = whole(0, (1 << 63) - 1)
_BROKERS = whole(1, 20)
_PARTITIONS = whole(1, 100)
_TEXT = May("a text", lambda value: type(value) is str and bool(value) and value.isprintable())
_PLAIN = May("a text, a number, True or False", lambda value: isinstance(value, str | bool | int | float))
_HEADERS = May("pairs of a text and a text or None", lambda value: all(map(_is_header, value)))


def _is_header(pair: Any) -> bool:
    # Half of a surrogate pair, for example, is not printable, and cannot be encoded as UTF-8.
    texts = (
        isinstance(pair, list)
        and len(pair) == 2
        and all(type(text) is str and text.isprintable() for text in pair if text is not None)
    )
    return texts and pair[0] is not None


# Limits of fields that the faults themselves do not limit: how long a message may be delayed.
_MOST_MS = {"delay_ms": 60_000, "delay_max_ms": 60_000}
_APIS = tuple(name for _, name in MODULES.values())


class PlanCast:
    """The brokers, topics and clients that a plan's faults may name."""

    def __init__(self, plan: Plan) -> None:
        self.broker_ids = range(plan.brokers)
        self.partitions = partitions_of(plan)
        self.client_ids = [each.name for each in plan.producers] + [each.name for each in plan.readers]


def partitions_of(plan: Plan) -> dict[str, int]:
    """How many partitions each topic has, internal topics included."""
    settings = BrokerSettings(**plan.settings)
    return {topic.name: topic.partitions for topic in plan.topics} | {
        OFFSETS_TOPIC: settings.offsets_topic_num_partitions,
        TRANSACTIONS_TOPIC: settings.transaction_state_log_num_partitions,
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


def misfit(plan: Plan, timed: TimedFault) -> str | None:
    """None if this fault can be carried out in the plan, otherwise what is wrong with it."""
    return next(_misfits(plan, timed), None)


# ---- fields and types -------------------------------------------------------------------------------------------


def _plan(data: dict[str, Any]) -> Plan:
    given = dict(data)
    given["topics"] = _made(given, "topics", _topic_plan)
    given["producers"] = _made(given, "producers", _producer_plan)
    given["readers"] = _made(given, "readers", _reader_plan)
    given["faults"] = _made(given, "faults", _timed_fault)
    given["service"] = _made(given, "service", lambda item: _checked(ServicePlan(**item)))
    # Older plans of this format have no moves.
    given["moves"] = _made({"moves": [], **given}, "moves", lambda item: _checked(MovePlan(**item)))
    # All other fields must be there, also those with defaults: plans of older formats lack some.
    given = {each.name: given.pop(each.name) for each in fields(Plan)} | given
    plan = _checked(Plan(**given))
    if plan.severity not in SEVERITIES:
        raise TypeError(f"Plan.severity is {_shown(plan.severity)} and must be one of {', '.join(SEVERITIES)}")
    BrokerSettings(**plan.settings)
    return plan


def _made(data: dict[str, Any], name: str, make: Callable[[dict[str, Any]], T]) -> list[T]:
    """The list of parts under this name; TypeError names the part that cannot be made."""
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


def _timed_fault(data: dict[str, Any]) -> TimedFault:
    fields = dict(data)
    fault = fields.pop("fault")
    if type(fault) is not dict:
        raise TypeError(f"fault is {_shown(fault)} and must be an object")
    return _checked(TimedFault(fault_from(fault), **fields))


# The types of JSON values that fit a field's annotation; lists of parts are checked by `_made`.
_TYPES: dict[Any, tuple[type, ...]] = {
    "int": (int,),
    "int | None": (int, type(None)),
    "str": (str,),
    "bool": (bool,),
    "list[int] | None": (list, type(None)),
    "dict[str, Any]": (dict,),
    "list[list[str | None]]": (list,),
}


def _checked(part: T) -> T:
    """The part itself, if each of its fields has the right type; TypeError otherwise."""
    for each in fields(part):
        value, allowed = getattr(part, each.name), _TYPES.get(each.type)
        if allowed is not None and type(value) not in allowed:
            raise TypeError(f"{type(part).__name__}.{each.name} is {_shown(value)} and must be {each.type}")
    return part


def _shown(value: Any) -> str:
    """A value for a message, shortened."""
    return reprlib.repr(value)


# ---- values -----------------------------------------------------------------------------------------------------


def _faults(plan: Plan) -> Iterator[str]:
    """All errors of a plan, each with its field."""
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
        topics = one_of([topic.name for topic in plan.topics])
        yield from _at(place, _wrong(reader, {"topic": topics, "pause_us": _REST_US}))
    taken: list[int] = []
    for place, service in _placed("service", plan.service):
        yield from _at(place, _service_faults(plan, service, taken))
    for place, timed in _placed("faults", plan.faults):
        yield from _at(f"{place}, {timed.kind!r}", _misfits(plan, timed))
    for place, move in _placed("moves", plan.moves):
        yield from _at(place, _move_faults(plan, move))


def _at(place: str, faults: Iterator[str]) -> Iterator[str]:
    return (f"{place}: {fault}" for fault in faults)


def _wrong(part: Any, allowed: dict[str, May]) -> Iterator[str]:
    """An error for each of these fields with a value that is not allowed."""
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
    """Settings in a form that brokers and clients understand, but the judge of a run does not."""
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
    yield from _wrong(topic, {"partitions": _PARTITIONS, "replication_factor": whole(1, plan.brokers)})
    yield from _setting_faults(topic.settings)


def _service_faults(plan: Plan, service: ServicePlan, taken: list[int]) -> Iterator[str]:
    free = [each for each in range(plan.brokers) if each not in taken]
    yield from _wrong(service, {"broker": one_of(free), "least_us": _REST_US})
    taken.append(service.broker)
    if not service.least_us <= service.most_us <= 60_000_000:
        yield _must("most_us", service.most_us, May("from least_us to 60000000", bool))


def _producer_faults(plan: Plan, producer: ProducerPlan, records: dict[int, tuple[str, Act]]) -> Iterator[str]:
    yield from _setting_faults(producer.settings)
    partitions = {topic.name: topic.partitions for topic in plan.topics}
    highest = -1
    for place, act in _placed("acts", producer.acts):
        yield from _at(f"{place}, {act.do!r}", _act_faults(act, partitions, producer))
        # The same record may be sent again, as by an application that restarts. Not in transactions: there the number
        # says to which transaction a record belongs.
        again = act.do == SEND and act.number in records
        if again and ("transactional_id" in producer.settings or records[act.number] != (producer.name, act)):
            yield f"{place}, {act.do!r}: number is {act.number}, as that of a record before it, and must be another"
        if act.do == SEND:
            if not again and type(act.number) is int:
                if act.number < highest:
                    yield (
                        f"{place}, {act.do!r}: number is {act.number}, but an earlier record has {highest}: numbers "
                        "must grow, because the judge takes the order of sending from them"
                    )
                highest = max(highest, act.number)
            records[act.number] = producer.name, act


def _act_faults(act: Act, partitions: dict[str, int], producer: ProducerPlan) -> Iterator[str]:
    yield from _wrong(act, {"pause_us": _IDLE_US, "value_bytes": _BYTES, "headers": _HEADERS})
    if act.do in (BEGIN, OFFSETS, COMMIT, ABORT) and "transactional_id" not in producer.settings:
        yield f"{producer.name!r} has no transactions and must have a transactional_id among its settings for them"
    if act.do in (SEND, OFFSETS):
        yield from _wrong(act, {"topic": one_of(list(partitions)), "number": _INT64})
        partition = whole(0, partitions[act.topic] - 1)
        yield from _wrong(act, {"partition": _none_or(partition) if act.do == SEND else partition})


def move_misfit(plan: Plan, move: MovePlan) -> str | None:
    """None if this move can be carried out in the plan, otherwise why not."""
    return next(_move_faults(plan, move), None)


def _move_faults(plan: Plan, move: MovePlan) -> Iterator[str]:
    partitions = partitions_of(plan)
    yield from _wrong(move, {"at_us": _TIME_US, "topic": one_of(list(partitions))})
    if move.topic in partitions:
        yield from _wrong(move, {"partition": whole(0, partitions[move.topic] - 1)})
    holders = May(
        f"None, or different brokers from 0 to {plan.brokers - 1}, one at least",
        lambda value: value is None or _are_brokers(value, plan.brokers),
    )
    yield from _wrong(move, {"replicas": holders})


def _are_brokers(holders: list[Any], brokers: int) -> bool:
    are_known = all(type(each) is int and 0 <= each < brokers for each in holders)
    return bool(holders) and are_known and len(dict.fromkeys(holders)) == len(holders)


def _misfits(plan: Plan, timed: TimedFault) -> Iterator[str]:
    yield from _wrong(timed, {"at_us": _TIME_US, "lasts_us": _TIME_US})
    fault = timed.fault
    yield from fault.misfits(PlanCast(plan))
    for name, most in _MOST_MS.items():
        value = getattr(fault, name, None)
        if value is not None and value > most:
            yield _must(name, value, whole(1, most))
    api = getattr(fault, "api", None)
    if api is not None and api not in _APIS:
        yield _must("api", api, one_of(_APIS))
