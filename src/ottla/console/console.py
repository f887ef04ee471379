"""`Console` holds what is looked at: a Kafka, perhaps a schema registry, perhaps the inside of a served cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.console.kafka import Kafka
from ottla.console.served import Served
from ottla.console.shown import Registry
from ottla.errors import UserMistake
from ottla.remote.client import RemoteCluster


class Console:
    """Use it in a `with` statement, or `close()` it. Raises ConfigError for settings that cannot be used.

    `reading` and `writing` are settings of clients by keyword, `registry` the address of a schema registry, `control`
    that of a served cluster.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        reading: Mapping[str, Any] | None = None,
        writing: Mapping[str, Any] | None = None,
        registry: str | None = None,
        control: RemoteCluster | None = None,
    ) -> None:
        self.registry = None if registry is None else Registry(registry)
        self._served = None if control is None else Served(control)
        self.kafka = Kafka(bootstrap_servers, reading or {}, writing or {})

    @property
    def served(self) -> Served:
        """The inside of a served cluster; UserMistake where it was not given."""
        if self._served is None:
            raise UserMistake("the console sees no served cluster: start it with --control ADDRESS.")
        return self._served

    def described(self) -> dict[str, Any]:
        """What the page has to know of it."""
        from ottla import __version__

        return {
            "ottla": __version__,
            "bootstrap_servers": self.kafka.bootstrap_servers,
            "has_registry": self.registry is not None,
            "is_served": self._served is not None,
        }

    def close(self) -> None:
        """Close all connections."""
        self.kafka.close()
        if self.registry is not None:
            self.registry.close()

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
