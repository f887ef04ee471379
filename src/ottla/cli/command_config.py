"""`--command-config FILE`: settings of a client from a properties file, as Kafka's own tools take them.

Such a file is often shared by tools of all kinds, so Kafka's settings that this command has no use for are passed
over; a name that is nobody's, and one about security that ottla cannot do, is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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


def settings_from(path: Path | None, table: Sequence[Setting], **own: Any) -> dict[str, Any]:
    """Keywords for a client whose settings are `table`: the file's, and where it does not say, `own`; ConfigError."""
    if path is None:
        return own
    from ottla.client.properties import read_properties
    from ottla.connection.kafka_settings import KAFKA_SETTINGS
    from ottla.connection.security_settings import not_in_python

    rows = {row.name: row for row in table}
    found: dict[str, Any] = {}
    for name, value in read_properties(path).items():
        row = rows.get(name)
        if row is not None:
            found[row.keyword] = value
        elif name not in KAFKA_SETTINGS or not_in_python(name) is not None:
            # Refused where all settings are checked.
            found[name] = value
    return {**own, **found}


def client_arguments(
    path: Path | None, table: Sequence[Setting], bootstrap_servers: str, default: str, **own: Any
) -> tuple[str, dict[str, Any]]:
    """(bootstrap_servers, keywords) of a client: the file's addresses count where none were given."""
    settings = settings_from(path, table, **own)
    told = settings.pop("bootstrap_servers", None)
    return (told if told and bootstrap_servers == default else bootstrap_servers), settings
