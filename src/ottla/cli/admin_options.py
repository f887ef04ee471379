"""What groups of commands about a cluster share: options before or after a verb, and a name in place of the verb.

An option after the verb overrides the same one before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ottla.cli.command_config import client_arguments
from ottla.cli.foreign_words import instead_of
from ottla.cli.narrow_help import Group
from ottla.cli.options import DEFAULT_BOOTSTRAP
from ottla.errors import KafkaError, OttlaError, UserMistake
from ottla.nearest import nearest_name
from ottla.printable import printable
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.console.kafka import Kafka

_PATIENCE_MS = 5_000
_NOT_FOUND = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND}
# Where a command line keeps the word that was taken for a name.
_NAMED = "ottla.named"

OwnBootstrapServers = Annotated[
    str | None,
    typer.Option("--bootstrap-servers", "-b", help="Where the brokers are: host:port.", metavar="ADDRESSES"),
]


class Before(NamedTuple):
    """What stands before the verb."""

    bootstrap_servers: str
    command_config: Path | None
    as_json: bool


class NamingGroup(Group):
    """A word that is no verb is the name of what is to be described."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            # A shell that completes a line wants no message.
            if args[1:] and not args[1].startswith("-") and not ctx.resilient_parsing:
                self.answer_foreign(ctx, args[0])
                meant = nearest_name(args[0], self.commands)
                raise UserMistake(
                    f"{args[0]!r} is no command of `{ctx.command_path}`"
                    + (f"; did you mean {meant}?" if meant else f": use one of {', '.join(sorted(self.commands))}")
                )
            ctx.meta[_NAMED] = args[0]
            args = ["describe", *args]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KafkaError as error:
            # Without a verb: a name that does not exist may have been meant as a verb.
            named = ctx.meta.get(_NAMED) if error.code in _NOT_FOUND else None
            instead = instead_of(ctx.command_path, named) if named is not None else None
            if instead is not None:
                raise UserMistake(f"{error}; as a command: {instead}") from error
            meant = nearest_name(named, self.commands) if named is not None else None
            if meant is None:
                raise
            raise UserMistake(f'{error}; did you mean "{ctx.command_path} {meant}"?') from error


def told_as_json(context: typer.Context, as_json: bool, what: Any) -> bool:
    """Whether JSON was asked for, before the verb or behind it; then this is printed."""
    if not (as_json or context.obj.as_json):
        return False
    typer.echo(json.dumps(what))
    return True


def delete_each(names: Sequence[str], delete: Callable[[str], None]) -> None:
    """Delete one after the other, also behind one that cannot be deleted; say which ones were where not all were."""
    deleted: list[str] = []
    errors: list[OttlaError] = []
    for name in names:
        try:
            delete(name)
        except KafkaError as error:
            errors.append(error)
        except OttlaError as error:
            # Nobody answers: nor would it for the others.
            errors.append(error)
            break
        else:
            deleted.append(name)
    if errors:
        if deleted:
            typer.echo(f"ottla: deleted: {printable(', '.join(deleted))}", err=True)
        for told in errors[:-1]:
            typer.echo(f"ottla: {printable(str(told))}", err=True)
        raise errors[-1]


def admin_arguments(
    context: typer.Context, bootstrap_servers: str | None, command_config: Path | None
) -> tuple[str, dict[str, Any]]:
    """(bootstrap_servers, keywords) of a client that asks."""
    from ottla.reader.settings import ReaderSettings

    return client_arguments(
        command_config or context.obj.command_config,
        ReaderSettings,
        bootstrap_servers or context.obj.bootstrap_servers,
        DEFAULT_BOOTSTRAP,
        default_api_timeout_ms=_PATIENCE_MS,
    )


def looked_at(context: typer.Context, bootstrap_servers: str | None, command_config: Path | None) -> closing[Kafka]:
    """The Kafka whose topics or groups are shown as they are: what does not answer is left out, and told."""
    from ottla.console.kafka import Kafka

    addresses, settings = admin_arguments(context, bootstrap_servers, command_config)
    return closing(Kafka(addresses, settings, {}))
