"""A scenario: what is sent, what goes wrong meanwhile, which guarantee is claimed, and what has to be seen.

It is a TOML file that a person can read and write. A scenario has *sides*: the same records and the same faults under
different settings, each with its own topic on a cluster of its own. At least one side must show something that
exactly-once forbids: it is the control, without which a trial that finds nothing proves nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from ottla.audit.promises import PROMISES
from ottla.errors import ConfigError, UserMistake
from ottla.faults.fault import Fault, fault_from
from ottla.nearest import nearest_name

KEPT, BROKEN = "kept", "broken"
ROLES = LEADER, FIRST_FOLLOWER, SECOND_FOLLOWER = "leader", "first follower", "second follower"
RECORDS_MAX = 200_000
_BYTES_MAX = 1 << 20


@dataclass(slots=True, frozen=True)
class TimedFault:
    """A fault in force from when `after` records were handed over until `until` were (None: all, and all told).

    `role`: its broker is the one that is that of the trial's first partition when it begins; "" for the one it names.
    """

    fault: Fault
    after: int = 0
    until: int | None = None
    role: str = ""


@dataclass(slots=True, frozen=True)
class Side:
    """One way to send: settings of the producer and of the topic, the guarantee claimed, and what is expected.

    `expect`: whether the guarantee is kept or broken. `shows`: kinds of anomaly that have to be found.
    """

    name: str
    claims: str
    producer: Mapping[str, Any]
    topic: Mapping[str, str]
    expect: str = KEPT
    shows: tuple[str, ...] = ()

    @property
    def is_control(self) -> bool:
        """Whether something must be found that exactly-once forbids."""
        return self.expect == BROKEN or bool(self.shows)


@dataclass(slots=True, frozen=True)
class Scenario:
    """All of a trial. `teaches`: what it shows, in a paragraph. `flush_every`: 0 for never."""

    name: str
    title: str
    teaches: str
    sides: tuple[Side, ...]
    faults: tuple[TimedFault, ...]
    records: int
    value_bytes: int
    partitions: int
    brokers: int
    flush_every: int
    settings: Mapping[str, Any]


# ---- those that come with ottla -------------------------------------------------------------------------------------


def shipped_names() -> list[str]:
    """The names of the scenarios that come with ottla, in the order in which they teach."""
    return list(_shipped())


def load_shipped(name: str) -> Scenario:
    """The scenario of this name that comes with ottla; UserMistake with the nearest name."""
    text = shipped_text(name)
    return read_scenario(name, text, f"{name}.toml")


def shipped_text(name: str) -> str:
    """Its file; UserMistake with the nearest name."""
    shipped = _shipped()
    if name in shipped:
        return shipped[name].read_text("utf-8")
    near = nearest_name(name, shipped)
    hint = f" did you mean {near!r}?" if near is not None else ""
    raise UserMistake(
        f"there is no trial {name!r};{hint} `ottla trial --list` shows all, and a file of yours ends in .toml"
    )


def _shipped() -> dict[str, Traversable]:
    """Files such as 01-lost-ack.toml: the number is their place."""
    folder = files("ottla.trial") / "scenarios"
    found = sorted((each for each in folder.iterdir() if each.name.endswith(".toml")), key=lambda each: each.name)
    return {each.name.removesuffix(".toml").partition("-")[2]: each for each in found}


def load_file(path: Path) -> Scenario:
    """The scenario in a file; UserMistake where it cannot be read, ConfigError with the place of what is wrong."""
    try:
        with path.open("rb") as file:
            content = file.read(_BYTES_MAX + 1)
        text = content.decode("utf-8")
    except OSError as error:
        raise UserMistake(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserMistake(f"{path} is not UTF-8 text: a trial is a TOML file") from None
    if len(content) > _BYTES_MAX:
        raise UserMistake(f"{path} is longer than {_BYTES_MAX:,} bytes: a trial is a short TOML file")
    return read_scenario(path.stem, text, str(path))


# ---- reading --------------------------------------------------------------------------------------------------------

_TOP = {"title", "teaches", "records", "value_bytes", "partitions", "brokers", "flush_every", "topic", "settings"}
_TABLES = {"fault", "side"}
_OF_FAULT = {"after_records", "until_records", "broker"}
_OF_SIDE = {"name", "claims", "producer", "topic", "expect", "shows"}
# The runner's own: where the records go, and by what they are known again.
_NOT_GIVEN = {"bootstrap_servers", "transactional_id", "clock"}


def read_scenario(name: str, text: str, where: str) -> Scenario:
    """The scenario that a TOML text describes; ConfigError says the place in the file and what is allowed there."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where} is not TOML: {error}") from None
    reading = _Reading(where, text)
    reading.check_names(given, _TOP | _TABLES, "a trial")
    records = reading.whole(given, "records", 600, 1, RECORDS_MAX)
    topic = reading.texts(given, "topic")
    faults = tuple(reading.fault(each, index, records) for index, each in enumerate(reading.tables(given, "fault"), 1))
    sides = tuple(reading.side(each, index, topic) for index, each in enumerate(reading.tables(given, "side"), 1))
    if not any(side.is_control for side in sides):
        raise reading.wrong(
            'no side has to show anything: give one that is without the guarantee `shows`, or `expect = "broken"`; '
            "a trial without such a control proves nothing"
        )
    return Scenario(
        name=name,
        title=reading.text_of(given, "title"),
        teaches=" ".join(reading.text_of(given, "teaches").split()),
        sides=sides,
        faults=faults,
        records=records,
        value_bytes=reading.whole(given, "value_bytes", 100, 0, 1_000_000),
        partitions=reading.whole(given, "partitions", 1, 1, 100),
        brokers=reading.whole(given, "brokers", 3, 1, 9),
        flush_every=reading.whole(given, "flush_every", 0, 0, RECORDS_MAX),
        settings=reading.settings(given, "settings", "broker"),
    )


class _Reading:
    """One file; every error tells its name, and the line where that can be found."""

    def __init__(self, where: str, text: str) -> None:
        self._where = where
        self._lines = text.splitlines()

    def wrong(self, what: str, line: int | None = None) -> ConfigError:
        place = self._where if line is None else f"{self._where}, line {line}"
        return ConfigError(f"{place}: {what}")

    def line_of(self, pattern: str, nth: int = 1) -> int | None:
        """The line on which something stands for the n-th time."""
        found = [number for number, line in enumerate(self._lines, 1) if re.search(pattern, line)]
        return found[nth - 1] if len(found) >= nth else None

    def check_names(self, given: Mapping[str, Any], known: set[str], whose: str, line: int | None = None) -> None:
        for name in given:
            if name not in known:
                near = nearest_name(name, known)
                hint = f" did you mean {near!r}?" if near is not None else ""
                place = line or self.line_of(rf"^\s*(\[+\s*)?{re.escape(name)}\b")
                raise self.wrong(f"{whose} has no field {name!r};{hint} its fields: {', '.join(sorted(known))}", place)

    def text_of(self, given: Mapping[str, Any], name: str, line: int | None = None) -> str:
        value = given.get(name)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(f"it needs a text {name!r}", line or self.line_of(rf"^\s*{name}\b"))
        return value

    def whole(self, given: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
        value = given.get(name, default)
        if type(value) is not int or not least <= value <= most:
            line = self.line_of(rf"^\s*{name}\b")
            raise self.wrong(f"{name} is {value!r} and must be an integer from {least:,} to {most:,}", line)
        return value

    def tables(self, given: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
        found = given.get(name, [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise self.wrong(f"{name} must be tables, each under a line [[{name}]]", self.line_of(rf"\[+\s*{name}\b"))
        yield from found

    def texts(self, given: Mapping[str, Any], name: str) -> dict[str, str]:
        """Kafka's topic settings, whatever they are written as."""
        found = given.get(name, {})
        if not isinstance(found, dict) or any(isinstance(each, dict | list) for each in found.values()):
            raise self.wrong(f"{name} must be a table of topic settings", self.line_of(rf"^\s*\[?{name}\b"))
        return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in found.items()}

    def settings(self, given: Mapping[str, Any], name: str, whose: str, line: int | None = None) -> dict[str, Any]:
        """Settings with their types, under names of Python."""
        found = given.get(name, {})
        if not isinstance(found, dict):
            raise self.wrong(f"{name} must be a table of {whose} settings", line or self.line_of(rf"^\s*\[?{name}\b"))
        return {key.replace(".", "_"): value for key, value in found.items()}

    def fault(self, given: Mapping[str, Any], index: int, records: int) -> TimedFault:
        line = self.line_of(r"^\s*\[\[\s*fault\s*\]\]", index)
        after = given.get("after_records", 0)
        until = given.get("until_records")
        for name, value in (("after_records", after), ("until_records", until)):
            if value is not None and (type(value) is not int or not 0 <= value <= records):
                raise self.wrong(f"{name} is {value!r} and must be an integer from 0 to {records:,}", line)
        if until is not None and until <= after:
            raise self.wrong(f"until_records is {until} and must be more than after_records, {after}", line)
        role = given.get("broker", "")
        fields = {name: value for name, value in given.items() if name not in _OF_FAULT}
        if role:
            if role not in ROLES:
                raise self.wrong(f"broker is {role!r} and must be one of {', '.join(ROLES)}", line)
            if "broker_id" in fields:
                raise self.wrong("broker and broker_id both name its broker: give one of them", line)
            fields["broker_id"] = 0
        try:
            fault = fault_from(fields)
        except ConfigError as error:
            raise self.wrong(str(error), line) from None
        return TimedFault(fault, after, until, role)

    def side(self, given: Mapping[str, Any], index: int, topic: Mapping[str, str]) -> Side:
        line = self.line_of(r"^\s*\[\[\s*side\s*\]\]", index)
        self.check_names(given, _OF_SIDE, "a side", line)
        name = self.text_of(given, "name", line)
        claims = self._one_of(given, "claims", tuple(PROMISES), line)
        expect = self._one_of(given, "expect", (KEPT, BROKEN), line, KEPT)
        shows = given.get("shows", [])
        kinds = sorted({kind for promise in PROMISES.values() for kind in (*promise.never, *promise.shows)})
        if not isinstance(shows, list) or not all(each in kinds for each in shows):
            raise self.wrong(f"shows is {shows!r} and must be a list of some of {', '.join(kinds)}", line)
        producer = self.settings(given, "producer", "producer", line)
        mine = _NOT_GIVEN & {*producer}
        if mine:
            raise self.wrong(f"{mine.pop()} cannot be set for a producer of a trial: the trial sets it", line)
        return Side(
            name=name,
            claims=claims,
            producer=producer,
            topic={**topic, **self.texts(given, "topic")},
            expect=expect,
            shows=tuple(shows),
        )

    def _one_of(
        self,
        given: Mapping[str, Any],
        name: str,
        known: tuple[str, ...],
        line: int | None,
        default: str | None = None,
    ) -> str:
        value = given.get(name, default)
        if value not in known:
            raise self.wrong(f"{name} is {value!r} and must be one of {', '.join(known)}", line)
        return str(value)
