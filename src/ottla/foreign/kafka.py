"""One Kafka for the length of a command: topics of its own there, and a proxy in front of it.

Invariants: a topic is deleted by the command that has made it, and no other one is ever touched. A topic of which
nobody knows whether it was made is deleted, too: its name is drawn, and nobody else has it.
"""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from ottla.addresses import address_of
from ottla.client.admin import Admin
from ottla.client.topic_admin import BrokerDescription
from ottla.connection.security_settings import SECURITY_SETTINGS
from ottla.errors import KafkaError, OttlaError, Unreachable, UserMistake
from ottla.protocol.error_codes import ErrorCode
from ottla.proxy.proxy import Proxy

IN_SYNC_MIN = "min.insync.replicas"
_REPLICAS_MAX = 3
_LEGAL = re.compile(r"[A-Za-z0-9._-]*")
_PREFIX_MAX = 120
_CONNECT_S = 5.0
_NOT_ALLOWED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class ForeignKafka:
    """The Kafka at `bootstrap_servers`, as a context manager.

    `settings` are of a client that reads and makes topics, as keywords (`security_protocol`, ...). Topics begin with
    `topic_prefix`. `say` is told which topics stay there. Raises Unreachable or NotKafka where no broker answers.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        settings: Mapping[str, Any],
        *,
        topic_prefix: str,
        keeps_topics: bool = False,
        say: Callable[[str], None],
    ) -> None:
        if not _LEGAL.fullmatch(topic_prefix) or len(topic_prefix) > _PREFIX_MAX:
            raise UserMistake(
                f"--topic-prefix {topic_prefix!r} cannot begin the name of a topic: give at most {_PREFIX_MAX} "
                "letters, digits, dots, underscores and hyphens"
            )
        self.bootstrap_servers = bootstrap_servers
        self.settings = {name: value for name, value in settings.items() if name != "isolation_level"}
        self.security = {row.keyword: settings[row.keyword] for row in SECURITY_SETTINGS if row.keyword in settings}
        self._kept: list[str] = []
        self._beginning = f"{topic_prefix}{secrets.token_hex(4)}"
        self.keeps_topics = keeps_topics
        self._say = say

    def __enter__(self) -> Self:
        self.admin = Admin(self.bootstrap_servers, **self.settings)
        try:
            brokers = self.admin.cluster().brokers
            for broker in brokers:
                self._check_reachable(broker)
            self.brokers = len(brokers)
        except BaseException:
            self.admin.close()
            raise
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.admin.close()
        # In any case: who keeps topics must know which they are, after an error and after Ctrl+C, too.
        for name in self._kept:
            self._say(f"the topic {name} at {self.bootstrap_servers} is kept")

    @property
    def beginning(self) -> str:
        """What the names of all topics of this run begin with; nobody else's do."""
        return self._beginning

    @property
    def most_replicas(self) -> int:
        """How many replicas a topic has that asks for no number: three, as far as there are brokers."""
        return min(_REPLICAS_MAX, self.brokers)

    @property
    def client_settings(self) -> dict[str, Any]:
        """What a client on this machine is given that goes through a proxy: SASL passes through, TLS ends there."""
        found = {name: value for name, value in self.security.items() if name.startswith("sasl_")}
        if str(self.security.get("security_protocol", "")).upper().startswith("SASL"):
            found["security_protocol"] = "SASL_PLAINTEXT"
        return found

    def proxy(self) -> Proxy:
        """A proxy in front of it, on this machine."""
        upstream = {name: value for name, value in self.security.items() if not name.startswith("sasl_")}
        return Proxy(self.bootstrap_servers, upstream_settings=upstream)

    def make_topic(
        self, name: str, partitions: int, replicas: int, configs: Mapping[str, str], stack: ExitStack
    ) -> None:
        """Make a topic that `stack` deletes; one sentence says why it cannot be made."""
        with ExitStack() as undone:
            undone.callback(self.remove_topic, name)
            try:
                self.admin.create_topics(name, partitions=partitions, replication_factor=replicas, configs=configs)
                # Apache Kafka names a leader before that has opened its log.
                self.admin.end_offsets(name)
            except KafkaError as error:
                if not error.retriable:
                    undone.pop_all()
                raise self._refused(name, replicas, error) from None
            self._check_in_sync(name, replicas)
            stack.push(undone.pop_all())

    def _check_reachable(self, broker: BrokerDescription) -> None:
        """What a broker is called within its own network need not be known here."""
        try:
            socket.create_connection((broker.host, broker.port), _CONNECT_S).close()
        except OSError as error:
            where = address_of(broker.host, broker.port)
            why = "no answer" if isinstance(error, TimeoutError) else (error.strerror or str(error)).lower()
            raise Unreachable(
                f"{self.bootstrap_servers} says that its broker {broker.broker_id} is at {where}, "
                f"and that cannot be reached from here ({why}): see advertised.listeners of that broker"
            ) from None

    def _refused(self, name: str, replicas: int, error: KafkaError) -> UserMistake:
        where = self.bootstrap_servers
        if error.code in _NOT_ALLOWED:
            return UserMistake(
                f"{where} does not let this user make the topic {name} ({error.name}): it needs CREATE, DESCRIBE, "
                "READ, WRITE and DELETE on topics with its prefix (--topic-prefix), and --command-config says who it is"
            )
        copies = f"{replicas} replica{'' if replicas == 1 else 's'}"
        return UserMistake(f"{where} does not make the topic {name} with {copies}: {error}")

    def _check_in_sync(self, name: str, replicas: int) -> None:
        """A cluster may want more replicas in sync than there are brokers; then it stores nothing with acks=all."""
        try:
            least = self.admin.describe_configs(topic=name)[IN_SYNC_MIN].value or ""
        except (KafkaError, KeyError):
            return  # It may not be asked.
        if least.isdecimal() and int(least) > replicas:
            raise UserMistake(
                f"{self.bootstrap_servers} gives new topics {IN_SYNC_MIN}={least}, and this topic has {replicas} "
                "there: no record could be stored with acks=all"
            )

    def remove_topic(self, name: str) -> None:
        """Delete a topic of this run, unless topics are kept; `say` gets a sentence if it cannot be deleted."""
        if self.keeps_topics:
            self._kept.append(name)
            return
        try:
            self.admin.delete_topics(name)
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._say(self._left(name, str(error)))
        except OttlaError as error:
            self._say(self._left(name, str(error)))
        except BaseException:
            self._say(self._left(name, "interrupted"))
            raise

    def _left(self, name: str, why: str) -> str:
        return f"the topic {name} at {self.bootstrap_servers} could not be deleted, and may still be there: {why}"
