"""One row of a table of settings, and how a table is read.

Each `Setting` holds a name, type, default, range, one sentence of documentation, the KIP it came with, and the group
under which the reference page lists it. `read_settings` takes dotted (`linger.ms`) or snake_case (`linger_ms`) names,
and values or their text (as in properties files). It returns every row's value and the names that were given, or raises
a `ConfigError` that names the setting, the value, and what is allowed. Values are in Kafka's own units (milliseconds,
bytes).

To add a setting: write its row into the table it belongs to (`connection/settings.py` for all clients,
`producer/settings_table.py`, `reader/settings.py`), declare its attribute in the class beside the table, and run
`python tools/generate_settings.py`, which writes the keywords that type checkers see and docs/settings.md.

Invariants: a value that `read` returned has the row's type and is in its range. No error's text has the value of a
`secret` row, or a value that may be a secret given in the wrong place (`shown`).
"""

from __future__ import annotations

import contextlib
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args

from ottla.async_functions import is_async
from ottla.errors import ConfigError
from ottla.nearest import nearest_name as nearest_name
from ottla.shown import shown as shown

Taker = TypeVar("Taker", bound=Callable[..., Any])

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

Group = Literal[
    "The cluster",
    "Connections",
    "Delivery",
    "Batches and memory",
    "Compression",
    "Partitions",
    "Serializers and interceptors",
    "Deserializers",
    "Transactions",
    "Security",
    "Metrics",
    "Reading",
]
# In the order in which the reference page shows them.
GROUPS: tuple[Group, ...] = get_args(Group)


class Setting:
    """One row of a table.

    `kind` is int, float, bool, str, list or object. `allowed` lists the words of a str setting, `any_case` takes them
    in upper and lower case. `special` is a single number outside the range that is allowed too, such as gzip's -1.
    `reads` turns what was given into the value, in place of the rules of `kind` (ConfigError where it cannot). `takes`
    is the type that it accepts, as Python source; `SOURCE_OF` in the tool says where the names in it are imported from.
    """

    __slots__ = (
        "allowed",
        "any_case",
        "default",
        "doc",
        "group",
        "highest",
        "kind",
        "kip",
        "lowest",
        "name",
        "reads",
        "secret",
        "special",
        "takes",
    )

    def __init__(
        self,
        name: str,
        kind: type,
        default: Any,
        doc: str,
        *,
        group: Group,
        lowest: float | None = None,
        highest: float | None = None,
        special: int | None = None,
        allowed: tuple[str, ...] = (),
        any_case: bool = False,
        kip: int | None = None,
        takes: str = "",
        reads: Callable[[Any], Any] | None = None,
        secret: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.doc = doc
        self.group = group
        self.lowest = lowest
        self.highest = highest
        self.special = special
        self.allowed = allowed
        self.any_case = any_case
        self.kip = kip
        self.takes = takes
        self.reads = reads
        self.secret = secret

    @property
    def keyword(self) -> str:
        """The name as a Python keyword: `linger_ms` for `linger.ms`."""
        return self.name.replace(".", "_")

    def read(self, value: Any) -> Any:
        """Return the value in the row's type; `ConfigError` where it has another type or is out of range."""
        if self.reads is not None:
            return self.reads(value)
        if self.kind is int or self.kind is float:
            return self._read_number(value)
        if self.kind is bool:
            return self._read_bool(value)
        if self.kind is str:
            return self._read_word(value)
        return value

    def _shown(self, value: Any) -> str:
        return "[hidden]" if self.secret else shown(value, is_private=self.group == "Security")

    def _read_number(self, value: Any) -> float:
        number: float | None = None
        if self.kind is int and not isinstance(value, int | str) and hasattr(value, "__index__"):
            # Another library's whole number, such as numpy's; numpy's booleans and arrays raise TypeError.
            with contextlib.suppress(TypeError):
                value = operator.index(value)
        given = isinstance(value, int if self.kind is int else int | float) and not isinstance(value, bool)
        # "1_000" is a number in Python only, not in a properties file.
        if given or (isinstance(value, str) and "_" not in value):
            try:
                number = int(value) if self.kind is int else float(value)
            except ValueError:
                number = None
        if number is None:
            raise ConfigError(f"{self.name}={self._shown(value)} is not a {self._noun()}; {self._allowed_numbers()}.")
        low = self.lowest is not None and not number >= self.lowest
        high = self.highest is not None and not number <= self.highest
        if (low or high) and number != self.special:
            raise ConfigError(f"{self.name}={self._shown(number)} is out of range; {self._allowed_numbers()}.")
        return number

    def _noun(self) -> str:
        return "whole number" if self.kind is int else "number"

    def _allowed_numbers(self) -> str:
        return f"allowed is a {self._noun()} from {self.range_text()}"

    def range_text(self) -> str:
        """The range of a number: "0 to 9", "1 to 9, or -1"."""
        low = self.lowest if self.lowest is not None else "any"
        high = self.highest if self.highest is not None else "any"
        return f"{low} to {high}" if self.special is None else f"{low} to {high}, or {self.special}"

    def _read_bool(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        raise ConfigError(f"{self.name}={self._shown(value)} is neither true nor false.")

    def _read_word(self, value: Any) -> str:
        if not isinstance(value, str) and not (self.allowed and isinstance(value, int)):
            raise ConfigError(f"{self.name}={self._shown(value)} is not text.")
        word = str(value) if self.secret else str(value).strip()
        try:
            word.encode()
        except UnicodeEncodeError:
            raise ConfigError(
                f"{self.name}={self._shown(value)} cannot be written as UTF-8, in which it would be sent; "
                "leave out surrogates (U+D800 to U+DFFF)."
            ) from None
        if not self.allowed:
            return word
        for known in self.allowed:
            if word == known or (self.any_case and word.lower() == known.lower()):
                return known
        nearest = nearest_name(word, self.allowed)
        hint = f" Did you mean {nearest}?" if nearest else ""
        raise ConfigError(
            f"{self.name}={self._shown(value)} is not known; allowed are {', '.join(self.allowed)}.{hint}"
        )


# In a signature: the parameter that takes names with dots, as in `**{"linger.ms": 5}`.
_DOTTED = inspect.Parameter("names_with_dots", inspect.Parameter.VAR_KEYWORD)


def named_in_help(table: Sequence[Setting]) -> Callable[[Taker], Taker]:
    """Have `help()` of a function that takes settings list each of them with its default, in place of `**settings`.

    They come in the order of the reference page. Only the signature that is shown changes. It still has a parameter for
    names with dots, which cannot be keywords: so a mock with the same signature takes them.
    """
    rows = sorted(table, key=lambda row: GROUPS.index(row.group))
    settings = [
        inspect.Parameter(row.keyword, inspect.Parameter.KEYWORD_ONLY, default=row.default)
        for row in rows
        if row.keyword != "bootstrap_servers"
    ]

    def named(taker: Taker) -> Taker:
        signature = inspect.signature(taker)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        taker.__signature__ = signature.replace(parameters=[*own, *settings, _DOTTED])  # type: ignore[attr-defined]
        return taker

    return named


def read_settings(table: Sequence[Setting], given: Mapping[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """Return every row's value by keyword, and the keywords that were given.

    A value of None counts as not given. `ConfigError` for unknown names, all of them at once (with what they are called
    here, or the nearest known one), a name given twice in both spellings, or a value that its row refuses.
    """
    rows = {row.keyword: row for row in table}
    _refuse_unknown(given, table)
    values = {keyword: row.default for keyword, row in rows.items()}
    explicit: dict[str, str] = {}
    for name, value in given.items():
        keyword = name.replace(".", "_")
        row = rows[keyword]
        if value is None:
            continue
        if keyword in explicit:
            raise ConfigError(f"{row.name} is given twice, as {explicit[keyword]} and as {name}; keep one.")
        explicit[keyword] = name
        values[keyword] = row.read(value)
    return values, frozenset(explicit)


def _refuse_unknown(given: Mapping[str, Any], table: Sequence[Setting]) -> None:
    """ConfigError with a line for each name that is no setting."""
    keywords = {row.keyword for row in table}
    faults = []
    for name in given:
        if not isinstance(name, str):
            raise ConfigError(f"{shown(name)} is no name of a setting; names are text, such as 'bootstrap.servers'.")
        if name.replace(".", "_") not in keywords:
            faults.append(_unknown(name, table))
    if len(faults) == 1:
        raise ConfigError(faults[0])
    if faults:
        raise ConfigError("\n  ".join([f"{len(faults)} names are no settings of this client:", *faults]))


def _unknown(name: str, table: Sequence[Setting]) -> str:
    # Imported here: needed for errors only.
    from ottla.connection.foreign_settings import told_of
    from ottla.connection.java_settings import not_in_python
    from ottla.connection.kafka_settings import KAFKA_SETTINGS

    dotted = name.replace("_", ".")
    instead = told_of(name, dotted, frozenset(row.name for row in table)) or not_in_python(dotted)
    if instead is not None:
        return instead
    if dotted in KAFKA_SETTINGS:
        return f"{dotted} is a setting of Kafka's that ottla does not support here; leave it out."
    nearest = nearest_name(dotted, [row.name for row in table])
    if nearest and "_" in name:
        nearest = nearest.replace(".", "_")  # as keywords are written
    hint = f"did you mean {nearest}?" if nearest else 'the page "Settings" of the documentation lists all.'
    return f"{name or 'an empty name'} is not a setting this client knows; {hint}"


def refuse_coroutine(what: str, function: Any) -> None:
    """Raise ConfigError for an async function or async generator, where the result would not be awaited."""
    # The second is for what is only marked as one: mocks, and functions given to `inspect.markcoroutinefunction`.
    if is_async(function) or inspect.iscoroutinefunction(function):
        raise ConfigError(f"{what} is an async function, which nobody would await; give a plain one.")
