"""Scenarios from TOML files: those that come with ottla, and those of a user. An error names the table and the key.

Everything that can be known of a file is checked before anything is started.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from ottla.audit.findings import TORN
from ottla.audit.promises import PROMISES
from ottla.errors import ConfigError, UserMistake
from ottla.faults.fault import fault_from
from ottla.faults.toml_text import TomlText, field_in
from ottla.nearest import nearest_name
from ottla.trial.scenario import (
    BROKEN,
    COMMITTED,
    COORDINATOR,
    COUNTS,
    GROUPS,
    KEPT,
    LISTENERS,
    NO_GROUP,
    OFFSETS,
    OFFSETS_WITH_METADATA,
    PLAINTEXT,
    RECORDS_MAX,
    ROLES,
    SENDFILE,
    TOPIC,
    TRANSACTIONAL_ID,
    UNCOMMITTED,
    Scenario,
    Side,
    TimedFault,
)
from ottla.trial.side_settings import broker_mistake, error_mistake, producer_mistake, sent_mistake, topic_mistake

_BYTES_MAX = 1 << 20
_FAULTS_MAX, _SIDES_MAX = 1_000, 100

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
    """Files such as 01-lost-ack.toml, in the order of their numbers."""
    folder = files("ottla.trial") / "scenarios"
    found = sorted((each for each in folder.iterdir() if each.name.endswith(".toml")), key=lambda each: each.name)
    return {each.name.removesuffix(".toml").partition("-")[2]: each for each in found}


def load_file(path: Path, *, for_ottla: bool = True, is_embedded: bool = True) -> Scenario:
    """The scenario in a file; UserMistake where it cannot be read, ConfigError says where something is wrong.

    `for_ottla`, `is_embedded`: see `read_scenario`.
    """
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
    return read_scenario(path.stem, text, str(path), for_ottla=for_ottla, is_embedded=is_embedded)


# ---- reading --------------------------------------------------------------------------------------------------------

# What holds for all sides where it stands at the top, and else for its side.
_OF_BOTH = {"producer", "topic", "settings", "replicas", "records_per_second"}
_TOP = {
    "title", "teaches", "records", "value_bytes", "partitions", "brokers", "flush_every",
    "restart_at", "zombie", "abort_at", "chooses_partition",
} | _OF_BOTH  # fmt: skip
_TABLES = {"fault", "side"}
_OF_FAULT = {"after_records", "until_records", "broker", "in_sync", "sides"}
_OF_SIDE = {
    "name", "claims", "expect", "shows", "errors", "attempts",
    "transaction_records", "new_id", "notes_every", "isolation_level", "least", "most", "control", "listener",
    "group", "offsets",
} | _OF_BOTH  # fmt: skip
_ERRORS = 'errors, such as ["NOT_ENOUGH_REPLICAS"]'
# The trial's own settings: where the records go, and by what they are recognised.
_NOT_GIVEN = {"bootstrap_servers", "transactional_id", "clock"}


def read_scenario(name: str, text: str, where: str, *, for_ottla: bool = True, is_embedded: bool = True) -> Scenario:
    """The scenario that a TOML text describes; ConfigError says where it is wrong, and what is allowed there.

    `for_ottla`: ottla's producer sends, so its settings are checked, too; other clients report which ones they lack.
    `is_embedded`: the brokers are ottla's, so the topic's settings are; another Kafka may know more of them.
    """
    reading = _Reading(TomlText(text, where), for_ottla=for_ottla, is_embedded=is_embedded)
    given = reading.toml.content
    reading.check_names(given, _TOP | _TABLES, "a trial")
    records = reading.whole(given, "records", 600, 1, RECORDS_MAX)
    brokers = reading.whole(given, "brokers", 3, 1, 9)
    each_fault, each_side = reading.tables(given, "fault", _FAULTS_MAX), reading.tables(given, "side", _SIDES_MAX)
    faults = tuple(reading.fault(each, index, records, brokers) for index, each in enumerate(each_fault, 1))
    sides = tuple(reading.side(each, index, given) for index, each in enumerate(each_side, 1))
    reading.check_sides(sides)
    for index, fault in enumerate(faults, 1):
        reading.check_sides_of_fault(fault.sides, [side.name for side in sides], index)
    if given.get("zombie") is True and "restart_at" not in given:
        raise reading.wrong(
            "zombie is true, and nothing is started again: give restart_at, too", reading.line("zombie")
        )
    if "abort_at" in given and not any(side.transaction_records for side in sides):
        told = "abort_at is given, and no side has transactions: give a side transaction_records, or leave it out"
        raise reading.wrong(told, reading.line("abort_at"))
    if not any(side.is_control for side in sides):
        raise reading.wrong(
            "no side has to show anything: give one that is without the guarantee `shows`, `errors`, or "
            '`expect = "broken"`; '
            "a trial without such a control proves nothing"
        )
    return Scenario(
        name=name,
        title=reading.text_of(given, "title"),
        teaches=reading.text_of(given, "teaches"),
        sides=sides,
        faults=faults,
        records=records,
        value_bytes=reading.whole(given, "value_bytes", 100, 0, 1_000_000),
        partitions=reading.whole(given, "partitions", 1, 1, 100),
        brokers=brokers,
        flush_every=reading.whole(given, "flush_every", 0, 0, RECORDS_MAX),
        restart_at=reading.record_number(given, "restart_at", records),
        zombie=reading.yes(given, "zombie"),
        abort_at=reading.record_number(given, "abort_at", records),
        chooses_partition=reading.yes(given, "chooses_partition"),
    )


class _Reading:
    """One file; every error tells its name, and the line where that can be found."""

    def __init__(self, toml: TomlText, *, for_ottla: bool, is_embedded: bool) -> None:
        self.toml = toml
        self.wrong, self.header, self.line = toml.wrong, toml.header, toml.line
        self._is_embedded = is_embedded
        self._for_ottla = for_ottla

    def check_names(self, given: Mapping[str, Any], known: set[str], whose: str, header: int | None = None) -> None:
        for name in given:
            if name not in known:
                told = f"{whose} has no field {name!r};{_hint(name, known)} its fields: {', '.join(sorted(known))}"
                raise self.wrong(told, self.line(name, header))

    def check_sides(self, sides: tuple[Side, ...]) -> None:
        """There are some, and each has a name of its own."""
        if not sides:
            raise self.wrong("it has no side: write at least one, under a line [[side]]")
        names = [side.name for side in sides]
        for index, name in enumerate(names):
            if name in names[:index]:
                line = self.line("name", self.header("side", index + 1))
                raise self.wrong(f"name is {name!r}, and another side has this name", line)

    def text_of(self, given: Mapping[str, Any], name: str, header: int | None = None) -> str:
        """In one line, since it is shown in tables."""
        value = given.get(name)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(f"it needs a text {name!r}", self.line(name, header))
        text = " ".join(value.split())
        # A file may come from elsewhere: no text in it may move a terminal's cursor.
        if not text.isprintable():
            unprintable = next(each for each in text if not each.isprintable())
            raise self.wrong(f"{name} has a character that cannot be printed: {unprintable!r}", self.line(name, header))
        return text

    def whole(
        self, given: Mapping[str, Any], name: str, default: int, least: int, most: int, header: int | None = None
    ) -> int:
        value = given.get(name, default)
        if type(value) is not int or not least <= value <= most:
            told = f"{name} is {value!r} and must be an integer from {least:,} to {most:,}"
            raise self.wrong(told, self.line(name, header))
        return value

    def record_number(self, given: Mapping[str, Any], name: str, records: int) -> int | None:
        """The number of a record before which something happens; None where it does not."""
        return self.whole(given, name, 0, 1, records - 1) if name in given else None

    def yes(self, given: Mapping[str, Any], name: str, header: int | None = None) -> bool:
        value = given.get(name, False)
        if type(value) is not bool:
            raise self.wrong(f"{name} is {value!r} and must be true or false", self.line(name, header))
        return value

    def tables(self, given: Mapping[str, Any], name: str, most: int) -> Iterator[Mapping[str, Any]]:
        found = given.get(name, [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise self.wrong(f"{name} must be tables, each under a line [[{name}]]", self.line(name))
        if len(found) > most:
            raise self.wrong(f"it has {len(found):,} tables [[{name}]], and {most:,} are allowed")
        yield from found

    def texts(self, given: Mapping[str, Any], name: str, header: int | None = None) -> dict[str, str]:
        """Kafka's topic settings, whatever they are written as."""
        found = given.get(name, {})
        if not isinstance(found, dict) or any(isinstance(each, dict | list) for each in found.values()):
            raise self.wrong(f"{name} must be a table of topic settings", self.line(name, header))
        read = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in found.items()}
        if self._is_embedded and (mistake := topic_mistake(read)):
            raise self.wrong(f"{name}: {mistake}", self.line(name, header))
        return read

    def settings(self, given: Mapping[str, Any], name: str, whose: str, header: int | None = None) -> dict[str, Any]:
        """Settings with their types, under names of Python."""
        found = given.get(name, {})
        if not isinstance(found, dict):
            raise self.wrong(f"{name} must be a table of {whose} settings", self.line(name, header))
        return {key.replace(".", "_"): value for key, value in found.items()}

    def check_settings(self, side: Side, header: int | None) -> None:
        """Whether ottla's producer and brokers take the settings of a side, before anything is started."""
        transactional_id = TRANSACTIONAL_ID if side.transaction_records else None
        mistakes = (
            ("producer", sent_mistake(side.producer)),
            ("producer", producer_mistake(side.producer, transactional_id) if self._for_ottla else None),
            ("settings", broker_mistake(side.settings)),
        )
        for name, mistake in mistakes:
            if mistake is not None:
                line = self.line(name, header)
                # What the side does not have stands at the top.
                raise self.wrong(f"{name}: {mistake}", self.line(name) if line == header else line)

    def fault(self, given: Mapping[str, Any], index: int, records: int, brokers: int) -> TimedFault:
        header = self.header("fault", index)
        after = given.get("after_records", 0)
        until = given.get("until_records")
        for name, value in (("after_records", after), ("until_records", until)):
            if value is not None and (type(value) is not int or not 0 <= value <= records):
                told = f"{name} is {value!r} and must be an integer from 0 to {records:,}"
                raise self.wrong(told, self.line(name, header))
        if until is not None and until <= after:
            told = f"until_records is {until} and must be more than after_records, {after}"
            raise self.wrong(told, self.line("until_records", header))
        role = given.get("broker", "")
        fields = {name: value for name, value in given.items() if name not in _OF_FAULT}
        if role:
            self._one_of(given, "broker", (*ROLES, COORDINATOR), header)
            if "broker_id" in fields:
                told = "broker and broker_id both name its broker: give one of them"
                raise self.wrong(told, self.line("broker", header))
            fields |= {"topic": TOPIC, "partition": 0} if fields.get("kind") == "move_leader" else {"broker_id": 0}
        try:
            fault = fault_from(fields)
        except ConfigError as error:
            told = str(error)
            name = field_in(told, given)
            what, its, known = told.partition(" its fields: ")
            if its:
                # The fault knows the fields of its own alone, and not those that it has in a trial.
                near = nearest_name(name, _OF_FAULT) if "did you mean" not in what else None
                hint = f" did you mean {near!r}?" if near is not None else ""
                told = f"{what}{hint}{its}{known}, {', '.join(sorted(_OF_FAULT))}"
            raise self.wrong(told, self.line(name, header)) from None
        broker_id = fields.get("broker_id")
        if isinstance(broker_id, int) and broker_id > brokers:
            told = f"broker_id is {broker_id}, and the trial has brokers 1 to {brokers}"
            raise self.wrong(told, self.line("broker_id", header))
        in_sync = self.whole(given, "in_sync", 1, 1, brokers, header) if "in_sync" in given else None
        sides = self._names(given, "sides", header, "names of sides") or ()
        return TimedFault(fault, after, until, role, in_sync, sides)

    def check_sides_of_fault(self, named: Sequence[str], known: Sequence[str], index: int) -> None:
        """Each side that a fault names is there."""
        for name in named:
            if name not in known:
                told = f"sides has {name!r} and must be a list of some of {', '.join(known)}{_question(name, known)}"
                raise self.wrong(told, self.line("sides", self.header("fault", index)))

    def side(self, given: Mapping[str, Any], index: int, top: Mapping[str, Any]) -> Side:
        header = self.header("side", index)
        self.check_names(given, _OF_SIDE, "a side", header)
        shows = given.get("shows", [])
        kinds = sorted({kind for promise in PROMISES.values() for kind in (*promise.never, *promise.shows, TORN)})
        if not isinstance(shows, list) or not all(each in kinds for each in shows):
            wrong = next((each for each in shows if each not in kinds), None) if isinstance(shows, list) else None
            told = f"shows is {shows!r} and must be a list of some of {', '.join(kinds)}{_question(wrong, kinds)}"
            raise self.wrong(told, self.line("shows", header))
        producer = self.settings(top, "producer", "producer") | self.settings(given, "producer", "producer", header)
        mine = _NOT_GIVEN & {*producer}
        if mine:
            told = f"{mine.pop()} cannot be set for a producer of a trial: the trial sets it"
            raise self.wrong(told, self.line("producer", header))
        transaction_records = self.whole(given, "transaction_records", 0, 0, RECORDS_MAX, header)
        notes_every = self.whole(given, "notes_every", 0, 0, RECORDS_MAX, header)
        if transaction_records and notes_every:
            told = "a commit is a note, too: give transaction_records or notes_every"
            raise self.wrong(told, self.line("notes_every", header))
        group = self._one_of(given, "group", (NO_GROUP, *GROUPS), header, NO_GROUP)
        if group and not transaction_records and not notes_every:
            told = "a member of a group commits what it has read: give transaction_records or notes_every"
            raise self.wrong(told, self.line("group", header))
        if group and (top.get("abort_at") or top.get("chooses_partition")):
            told = "abort_at and chooses_partition are for sides without a group"
            raise self.wrong(told, self.line("group", header))
        offsets = self._one_of(given, "offsets", OFFSETS, header, OFFSETS_WITH_METADATA)
        if "offsets" in given and not (group and transaction_records):
            told = (
                "offsets is given, and the side has no group with transactions: give it group and transaction_records, "
                "or leave it out"
            )
            raise self.wrong(told, self.line("offsets", header))
        attempts = self.whole(given, "attempts", 0, 0, RECORDS_MAX, header) if "attempts" in given else None
        control = self.yes(given, "control", header)
        least, most = (self._counts(given, name, header) for name in ("least", "most"))
        if control and not least and not most:
            told = "a control of this kind counts something: give least or most"
            raise self.wrong(told, self.line("control", header))
        both = {**top, **given}
        level = COMMITTED if transaction_records else UNCOMMITTED
        side = Side(
            name=self.text_of(given, "name", header),
            claims=self._one_of(given, "claims", tuple(PROMISES), header),
            producer=producer,
            topic=self.texts(top, "topic") | self.texts(given, "topic", header),
            expect=self._one_of(given, "expect", (KEPT, BROKEN), header, KEPT),
            shows=tuple(shows),
            errors=self._errors(given, header),
            attempts=attempts,
            settings=self.settings(top, "settings", "broker") | self.settings(given, "settings", "broker", header),
            replicas=self.whole(
                both, "replicas", 0, 0, both.get("brokers", 3), header if "replicas" in given else None
            ),
            records_per_second=self.whole(
                both, "records_per_second", 0, 0, 1_000_000, header if "records_per_second" in given else None
            ),
            transaction_records=transaction_records,
            new_id=self.yes(given, "new_id", header),
            notes_every=notes_every,
            isolation_level=self._one_of(given, "isolation_level", (COMMITTED, UNCOMMITTED), header, level),
            least=least,
            most=most,
            control=control,
            listener=self._one_of(given, "listener", LISTENERS, header, PLAINTEXT),
            group=group,
            offsets=offsets,
        )
        self.check_settings(side, header)
        return side

    def _counts(self, given: Mapping[str, Any], name: str, header: int | None) -> dict[str, int]:
        found = given.get(name, {})
        if not isinstance(found, dict) or not all(type(each) is int and each >= 0 for each in found.values()):
            told = f"{name} is {found!r} and must be a table of counts, such as {{ {SENDFILE} = 0 }}"
            raise self.wrong(told, self.line(name, header))
        self.check_names(found, {*COUNTS}, name, header)
        return dict(found)

    def _errors(self, given: Mapping[str, Any], header: int | None) -> tuple[str, ...] | None:
        errors = self._names(given, "errors", header)
        mistake = next(filter(None, map(error_mistake, errors or ())), None)
        if mistake is not None:
            raise self.wrong(f"errors: {mistake}", self.line("errors", header))
        return errors

    def _names(
        self, given: Mapping[str, Any], name: str, header: int | None, what: str = _ERRORS
    ) -> tuple[str, ...] | None:
        found = given.get(name)
        if found is None:
            return None
        if not isinstance(found, list) or not all(isinstance(each, str) and each for each in found):
            raise self.wrong(f"{name} is {found!r} and must be a list of {what}", self.line(name, header))
        return tuple(found)

    def _one_of(
        self,
        given: Mapping[str, Any],
        name: str,
        known: tuple[str, ...],
        header: int | None,
        default: str | None = None,
    ) -> str:
        value = given.get(name, default)
        if value not in known:
            told = "is missing" if value is None else f"is {value!r}"
            question = _question(value, known)
            raise self.wrong(f"{name} {told} and must be one of {', '.join(known)}{question}", self.line(name, header))
        return str(value)


def _hint(name: str, known: Iterable[str]) -> str:
    """ " did you mean 'acks'?", or nothing."""
    near = nearest_name(name, known)
    return f" did you mean {near!r}?" if near is not None else ""


def _question(value: object, known: Iterable[str]) -> str:
    """The same behind a list of all that is allowed."""
    hint = _hint(value, known) if isinstance(value, str) else ""
    return f";{hint}" if hint else ""
