"""`--command-config FILE`: settings of a client from a properties file, as Kafka's own tools take them.

Such a file is often shared by programs of all kinds. Kafka's settings that this command has no use for are passed over
in silence, those of other programs (a schema registry's, say) with a line on stderr that names them: so do Kafka's own
tools. What looks like a mistake is an error, as it is for ottla's clients: a name that comes near one of Kafka's, one
about security that ottla cannot do, a value that its setting cannot have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.errors import ConfigError

if TYPE_CHECKING:
    from ottla.connection.setting import Setting

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        help="Settings from a properties file, such as security.protocol; -b goes before its bootstrap.servers.",
        metavar="FILE",
    ),
]
# They name code of the program that the file was written for; what commands send and print goes as it is.
_CODE = ("interceptor.classes", "key.serializer", "metric.reporters", "value.serializer")
# What is no name may be a line of a key in PEM, whose line before did not end with a backslash.
_NAME = re.compile(r"[A-Za-z][\w-]{0,39}(\.[\w-]+)*")
# The least at which a name is a mistake in writing another one, from 0 to 1; settings of other programs come to 0.6.
_ALIKE = 0.7


def settings_from(path: Path | None, table: Sequence[Setting], **own: Any) -> dict[str, Any]:
    """Keywords for a client whose settings are `table`: the file's, and where it does not say, `own`; ConfigError."""
    if path is None:
        return own
    from ottla.client.properties import read_properties
    from ottla.connection.setting import read_settings

    rows = {row.name: row for row in table if row.name not in _CODE}
    known = _known_names()
    found: dict[str, Any] = {}
    others: list[str] = []
    for given, value in read_properties(path).items():
        # Clients take both spellings, linger.ms and linger_ms.
        name = given.replace("_", ".")
        if name in rows:
            found[rows[name].keyword] = value
        elif fault := _mistake(given, name, known):
            raise ConfigError(f"{path}: {fault}")
        elif name not in known:
            others.append(given)
    try:
        read_settings(table, found)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if others:
        typer.echo(f"ottla: {path}: not settings of Kafka's clients, so passed over: {', '.join(others)}", err=True)
    return {**own, **found}


def client_arguments(
    path: Path | None, table: Sequence[Setting], bootstrap_servers: str, default: str, **own: Any
) -> tuple[str, dict[str, Any]]:
    """(bootstrap_servers, keywords) of a client: the file's addresses count where none were given."""
    settings = settings_from(path, table, **own)
    told = settings.pop("bootstrap_servers", None)
    return (told if told and bootstrap_servers == default else bootstrap_servers), settings


def _known_names() -> Set[str]:
    """Every setting of Kafka's clients and of ottla's."""
    from ottla.connection.kafka_settings import KAFKA_SETTINGS
    from ottla.producer.settings_table import PRODUCER_SETTINGS
    from ottla.reader.settings import READER_SETTINGS

    return KAFKA_SETTINGS.union(row.name for row in (*PRODUCER_SETTINGS, *READER_SETTINGS))


def _mistake(given: str, name: str, known: Set[str]) -> str | None:
    """What is wrong with a setting that the command has no use for; None where it may stand in the file."""
    from ottla.connection.kafka_settings import LIBRDKAFKA_NAMES
    from ottla.connection.security_settings import not_in_python
    from ottla.nearest import nearest_name

    instead = not_in_python(name)
    if instead is not None or name in known:
        return instead
    if not _NAME.fullmatch(given):
        return "a line sets nothing; a value goes on in the next line after a backslash, and only then."
    if name in LIBRDKAFKA_NAMES:
        return f"{given} is called {LIBRDKAFKA_NAMES[name]} here."
    # So Streams, Connect and schema registries write what is for their own clients: producer.acks.
    if any(name.endswith(f".{each}") for each in known):
        return None
    nearest = nearest_name(name, sorted(known), alike=_ALIKE)
    return nearest and f"{given} is not a setting of Kafka's clients; did you mean {nearest}?"
