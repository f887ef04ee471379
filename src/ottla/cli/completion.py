"""Names of topics and groups for a shell that completes a command line: asked of the brokers that the line names.

A shell waits for the answer and shows nothing else, so brokers have a second for it, and whatever goes wrong gives no
names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

import typer

from ottla.cli.command_config import client_arguments
from ottla.cli.options import DEFAULT_BOOTSTRAP
from ottla.errors import OttlaError

_PATIENCE_MS = 1_000


def complete_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """The topics that begin so."""

    def names(servers: str, settings: dict[str, Any]) -> Iterable[str]:
        from ottla.client.admin import Admin

        with Admin(servers, **settings) as admin:
            return admin.list_topics()

    return _beginning(ctx, incomplete, names)


def complete_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """The groups that begin so."""

    def names(servers: str, settings: dict[str, Any]) -> Iterable[str]:
        from ottla.console.kafka import Kafka

        with closing(Kafka(servers, settings, {})) as kafka:
            return [each.group_id for each in kafka.groups.listed().groups]

    return _beginning(ctx, incomplete, names)


def _beginning(ctx: typer.Context, incomplete: str, names: Callable[[str, dict[str, Any]], Iterable[str]]) -> list[str]:
    from ottla.reader.settings import ReaderSettings

    try:
        servers, settings = client_arguments(
            _given(ctx, "command_config"),
            ReaderSettings,
            _given(ctx, "bootstrap_servers") or DEFAULT_BOOTSTRAP,
            DEFAULT_BOOTSTRAP,
        )
        found = names(servers, {**settings, "default_api_timeout_ms": _PATIENCE_MS})
    except OttlaError:
        return []
    return [name for name in found if name.startswith(incomplete)]


def _given(ctx: Any, name: str) -> Any:
    """What an option says, behind the verb or before it."""
    while ctx is not None:
        value = ctx.params.get(name)
        if value is not None:
            return value
        ctx = ctx.parent
    return None
