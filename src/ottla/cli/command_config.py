"""`--command-config FILE`: settings of a client from a properties file, as Kafka's own tools take them.

Such a file is often shared by programs of all kinds. Kafka's settings that this command has no use for are passed over
in silence, those of other programs (a schema registry's, say) with a line on stderr that names them: so do Kafka's own
tools. What looks like a mistake is an error, as it is for ottla's clients: a name that comes near one of Kafka's, one
about security that ottla cannot do, a value that its setting cannot have.
"""

from __future__ import annotations

import re
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.errors import ConfigError

if TYPE_CHECKING:
    from ottla.producer.settings import ProducerSettings
    from ottla.reader.settings import ReaderSettings

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        help="Settings from a properties file, such as security.protocol; -b overrides its bootstrap.servers.",
        metavar="FILE",
    ),
]
# They name code of the program that the file was written for; what commands send and print goes as it is.
_CODE = ("interceptor.classes", "key.serializer", "metric.reporters", "value.serializer")
# What is no name may be a line of a key in PEM, whose line before did not end with a backslash.
_NAME = re.compile(r"[A-Za-z][\w-]{0,39}(\.[\w-]+)*")
# The least at which a name is a mistake in writing another one, from 0 to 1; settings of other programs come to 0.6.
_ALIKE = 0.7


def client_arguments(
    path: Path | None,
    kind: type[ProducerSettings] | type[ReaderSettings],
    bootstrap_servers: str,
    default: str,
    **own: Any,
) -> tuple[str, dict[str, Any]]:
    """(bootstrap_servers, keywords) of a client with such settings: the file's, and where it does not say, `own`.

    The file's addresses count where none were given. ConfigError for what cannot be used.
    """
    if path is None:
        return bootstrap_servers, own
    found, others = _read(path, kind)
    settings = own | found
    try:
        # One setting may not go with another, or want one that is not there.
        kind({"bootstrap_servers": default, **settings})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if others:
        typer.echo(f"ottla: {path}: ignored, no settings of Kafka's clients: {', '.join(others)}", err=True)
    told = settings.pop("bootstrap_servers", None)
    return (told if told and bootstrap_servers == default else bootstrap_servers), settings


def _read(path: Path, kind: type[ProducerSettings] | type[ReaderSettings]) -> tuple[dict[str, Any], list[str]]:
    """What the file sets of such a client, and the names that are of no client; ConfigError for a mistake."""
    from ottla.client.properties import read_properties

    rows = {row.name: row for row in kind.TABLE if row.name not in _CODE}
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
    return found, others


def _known_names() -> Set[str]:
    """Every setting of Kafka's clients and of ottla's."""
    from ottla.connection.kafka_settings import KAFKA_SETTINGS
    from ottla.producer.settings_table import PRODUCER_SETTINGS
    from ottla.reader.settings import READER_SETTINGS

    return KAFKA_SETTINGS.union(row.name for row in (*PRODUCER_SETTINGS, *READER_SETTINGS))


def _mistake(given: str, name: str, known: Set[str]) -> str | None:
    """What is wrong with a setting that the command has no use for; None where it may stand in the file."""
    from ottla.connection.foreign_settings import RENAMED
    from ottla.connection.java_settings import not_in_python
    from ottla.nearest import nearest_name

    instead = not_in_python(name)
    if instead is not None or name in known:
        return instead
    if not _NAME.fullmatch(given):
        return "a line sets nothing; a value goes on in the next line after a backslash, and only then."
    if name in RENAMED:
        return f"{given} is called {RENAMED[name]} here."
    # So Streams, Connect and schema registries write what is for their own clients: producer.acks.
    if any(name.endswith(f".{each}") for each in known):
        return None
    nearest = nearest_name(name, sorted(known), alike=_ALIKE)
    return nearest and f"{given} is not a setting of Kafka's clients; did you mean {nearest}?"
