"""The options of commands that run on an embedded cluster or, where that is asked for, on a Kafka of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.command_config import client_arguments
from ottla.cli.options import DEFAULT_BOOTSTRAP
from ottla.errors import UserMistake
from ottla.printable import printable

if TYPE_CHECKING:
    from ottla.foreign.kafka import ForeignKafka

OwnKafka = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        help="Send to this Kafka instead of an embedded cluster: host:port, several with commas.",
        metavar="ADDRESSES",
    ),
]
# As `ottla audit` has it, too.
Bootstrap = Annotated[str | None, typer.Option("--bootstrap", hidden=True)]
TopicPrefix = Annotated[
    str | None,
    typer.Option(
        "--topic-prefix",
        help="How the names of topics begin that are made on that Kafka; with the name of the command unless given.",
        metavar="TEXT",
    ),
]
KeepTopics = Annotated[
    bool, typer.Option("--keep-topics", help="Do not delete the topics that were made on that Kafka.")
]
_PATIENCE_MS = 10_000


def given_kafka(
    bootstrap_servers: str | None,
    bootstrap: str | None,
    command_config: Path | None,
    topic_prefix: str | None,
    *,
    default_prefix: str,
    keeps_topics: bool,
) -> ForeignKafka | None:
    """The Kafka that the options name, by an address or by a file; None where none is named: an embedded cluster.

    UserMistake where something is said about topics on a Kafka that is not named.
    """
    from ottla.foreign.kafka import ForeignKafka
    from ottla.reader.settings import ReaderSettings

    if bootstrap is not None and bootstrap_servers is not None:
        raise UserMistake("--bootstrap and --bootstrap-servers both say where the brokers are: give one of them")
    servers = bootstrap if bootstrap_servers is None else bootstrap_servers
    if servers is None and command_config is None:
        if topic_prefix is not None or keeps_topics:
            option = "--keep-topics" if topic_prefix is None else "--topic-prefix"
            raise UserMistake(f"{option} is about topics on a Kafka of yours: give --bootstrap-servers, too")
        return None
    given = DEFAULT_BOOTSTRAP if servers is None else servers
    where, settings = client_arguments(
        command_config, ReaderSettings, given, DEFAULT_BOOTSTRAP, default_api_timeout_ms=_PATIENCE_MS
    )
    return ForeignKafka(
        where,
        settings,
        topic_prefix=default_prefix if topic_prefix is None else topic_prefix,
        keeps_topics=keeps_topics,
        say=lambda words: typer.echo(f"ottla: {printable(words)}", err=True),
    )
