"""The fields of faults: one name for each, what it may hold, and what it says."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ottla.errors import TOPIC_NAMES

# In place of a broker's id.
CONTROLLER = -2
# Integers are as large as they are in Kafka's protocol; times in milliseconds are at most a year.
INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1
_YEAR_MS = 365 * 86_400_000
# Longer texts are integers of no field; Python itself reads at most 4,300 digits.
_DIGITS_MAX = 100


class Cast(Protocol):
    """Whom a fault may be about, as far as that is known before it begins."""

    @property
    def broker_ids(self) -> Sequence[int]:
        """The brokers there are."""
        ...

    @property
    def partitions(self) -> Mapping[str, int] | None:
        """How many partitions each topic has; None where that is not known yet."""
        ...

    @property
    def client_ids(self) -> Collection[str] | None:
        """The clients there are; None where anybody may come."""
        ...


class May(NamedTuple):
    """What a value may be, as the end of "must be ...", and whether it is."""

    words: str
    holds: Callable[[Any], bool]


class Field(NamedTuple):
    """`fits`: what of `may` there is in a cast, given the fault's other fields; None: whatever it may be.

    `meant`: the value that another way to write it stands for.
    """

    name: str
    may: May
    says: str
    fits: Callable[[Cast, Mapping[str, Any]], May | None] | None = None
    meant: Callable[[Any], Any] | None = None

    def read(self, text: str) -> Any:
        """The value that a text stands for, as on a command line; the text itself where it stands for none."""
        return next(filter(self.may.holds, _values(text)), text)


def _values(text: str) -> Iterator[Any]:
    """All that a text may stand for. A topic may be called 3: as a text it is tried first."""
    yield text
    if len(text) <= _DIGITS_MAX and re.fullmatch(r"[+-]?[0-9]+", text):
        yield int(text)
    if re.fullmatch(r"[0-9]*\.?[0-9]+(e-?[0-9]+)?", text) and math.isfinite(number := float(text)):
        yield number
    if text.lower() in ("true", "false"):
        yield text.lower() == "true"


def whole(least: int, most: int = INT32_MAX) -> May:
    """An integer from `least` to `most`; True is none."""
    return May(f"an integer from {least} to {most}", lambda value: type(value) is int and least <= value <= most)


def one_of(values: Collection[Any]) -> May:
    """One of these values, and of the same type: to Python True is 1."""
    known = [(type(each), each) for each in values]
    shown = [repr(each) if isinstance(each, str) else str(each) for each in values]
    return May(f"one of {', '.join(shown)}", lambda value: (type(value), value) in known)


# Threads cannot wait for longer than some hundred years.
_WAIT_MAX_S = 1_000_000_000


def _is_wait(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value <= _WAIT_MAX_S


TEXT = May("a text that is not empty", lambda value: type(value) is str and bool(value) and value.isprintable())
_SHARE = May("a number above 0 and up to 1", lambda value: type(value) in (int, float) and 0 < value <= 1)
WAIT = May(f"a number of seconds from 0 to {_WAIT_MAX_S}", _is_wait)
YES_OR_NO = May("True or False", lambda value: type(value) is bool)
# Also a code that Kafka does not have yet: clients meet brokers that are newer than they are.
_ERROR = May(
    "an error of Kafka's protocol: its name, such as NOT_LEADER_OR_FOLLOWER, or its number (-32768 to 32767, not 0)",
    lambda value: type(value) is int and -32768 <= value <= 32767 and value != 0,
)


# No broker has a topic of another name, so a fault for it would never fire.
_TOPIC = May(
    f"a topic's name: {TOPIC_NAMES}",
    lambda value: type(value) is str and re.fullmatch(r"(?!\.\.?$)[A-Za-z0-9._-]{1,249}", value) is not None,
)


def _error_code(value: Any) -> Any:
    """The number of an error's name; all else as it is."""
    if type(value) is not str:
        return value
    from ottla.protocol.error_codes import ErrorCode

    code = getattr(ErrorCode, value, value)
    return code if type(code) is int else value


def _brokers(cast: Cast, given: Mapping[str, Any]) -> May:
    return one_of(cast.broker_ids)


def _brokers_or_controller(cast: Cast, given: Mapping[str, Any]) -> May:
    return one_of([CONTROLLER, *cast.broker_ids])


def _other_end(cast: Cast, given: Mapping[str, Any]) -> May:
    # There is no link from a broker to itself.
    return one_of([each for each in (CONTROLLER, *cast.broker_ids) if each != given.get("broker_id")])


def _topics(cast: Cast, given: Mapping[str, Any]) -> May | None:
    return None if cast.partitions is None else one_of(list(cast.partitions))


def _partitions(cast: Cast, given: Mapping[str, Any]) -> May | None:
    count = None if cast.partitions is None else cast.partitions.get(given.get("topic") or "")
    return None if count is None else whole(0, count - 1)


def _clients(cast: Cast, given: Mapping[str, Any]) -> May | None:
    return None if cast.client_ids is None else one_of(list(cast.client_ids))


TOPIC = Field("topic", _TOPIC, "the name of a topic", _topics)
PARTITION = Field("partition", whole(0), "a partition of that topic", _partitions)
OFFSET = Field("offset", whole(0, INT64_MAX), "an offset in that partition")
BROKER = Field("broker_id", whole(0), "a broker", _brokers)
BROKER_OR_CONTROLLER = Field(
    "broker_id", whole(CONTROLLER), "a broker, or -2 for the controller", _brokers_or_controller
)
OTHER = Field("other_id", whole(CONTROLLER), "another broker, or -2 for the controller", _other_end)
CLIENT = Field("client_id", TEXT, "a client; without it, all clients", _clients)
DELAY = Field("delay_ms", whole(1, _YEAR_MS), "the delay, in milliseconds")
MOST_DELAY = Field("delay_max_ms", whole(1, _YEAR_MS), "the longest delay, in milliseconds")
JUMP = Field("jump_ms", whole(-_YEAR_MS, _YEAR_MS), "how far the clock moves, in milliseconds; negative: back")
# A clock that stands still, or runs backwards, would never come to anything.
DRIFT = Field("drift_ppm", whole(-900_000, 9_000_000), "how much too fast the clock runs, in parts per million")
SHARE = Field("probability", _SHARE, "the chance that it fires, each time")
SILENTLY = Field(
    "silently", YES_OR_NO, "True: a request gets no answer for a second, then it fails. False: it fails at once"
)
OPERATIONS = READ, WRITE, SYNC = ("read", "write", "sync")
OPERATION = Field("operation", one_of(OPERATIONS), "which operation fails")
EVERY = Field("every", whole(1), "each k-th one that matches; 1: all")
EVICTS = Field("evicts", YES_OR_NO, "whether data whose sync failed is gone from the page cache, too")
SEED = Field("seed", whole(0, INT64_MAX), "what random choices are drawn from; 0 unless given")
IN_SYNC = Field("in_sync_only", YES_OR_NO, "whether it fires only while every replica is in sync")
WITH_CONTROLLER = Field("controller", YES_OR_NO, "whether the controller loses power, too; True unless given")

API = Field("api", TEXT, "the Kafka API of the request, such as Produce or Fetch; Produce unless given")
NTH = Field("nth", whole(1), "only the n-th request that matches")
TIMES = Field("times", whole(1), "how often it fires at most")
AFTER = Field("after_ms", whole(0, _YEAR_MS), "the fault fires only from so long after its begin, in milliseconds")
DURATION = Field("duration_ms", whole(1, _YEAR_MS), "the fault fires only for so long from then on, in milliseconds")
ERROR = Field("error", _ERROR, "Kafka's error, by its name or its number", meant=_error_code)
NOW, REQUEST, APPEND, ACK = ("now", "request", "append", "ack")
# When a fault fires that has a choice.
MOMENTS = (REQUEST, APPEND, ACK)
