"""Trials on a Kafka that is not ottla's own: a topic of each side's own there, and a proxy in front of it.

    topic made -> proxy -> faults there, client sends through it -> healed -> read from the Kafka itself -> deleted

Only this client goes through the proxy, so nobody else meets its faults. What happens inside of brokers is not seen,
and a proxy cannot let it go wrong: `why_not` says of a scenario why it does not run here.

Invariants: a topic is deleted by the run that has made it, and no other one is ever touched. A topic of which nobody
knows whether it was made is deleted, too: its name is drawn, and nobody else has it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from ottla.client.admin import Admin
from ottla.connection.security_settings import SECURITY_SETTINGS
from ottla.errors import KafkaError, OttlaError, UserMistake
from ottla.patience import comes_within
from ottla.protocol.error_codes import ErrorCode
from ottla.proxy.faults_in_force import KINDS
from ottla.proxy.proxy import Proxy
from ottla.trial.scenario import COORDINATOR, Scenario, Side
from ottla.trial.side_cluster import SideCluster

TOPIC_PREFIX = "ottla-trial-"
_REPLICAS_MAX = 3
_LEGAL = re.compile(r"[A-Za-z0-9._-]*")
_PREFIX_MAX = 120
_NAME_MAX = 60
# Brokers look every 10 s for transactions that have timed out.
_SETTLE_S = 20.0
# Nobody tells when what was sent with acks=0 has arrived: when nothing more has come for so long.
_QUIET_S = 0.5
_IN_SYNC_MIN = "min.insync.replicas"
_NOT_ALLOWED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def why_not(scenario: Scenario) -> str | None:
    """Why a scenario runs on embedded clusters only, in a clause; None where it runs on any Kafka."""
    for planned in scenario.faults:
        kind = planned.fault.kind
        if kind not in KINDS:
            return f"the fault {kind} is about brokers, and a proxy reaches only requests and connections"
        if planned.role == COORDINATOR:
            return f"the fault {kind} is about the coordinator, and a proxy does not know which broker that is"
    for side in scenario.sides:
        if side.settings:
            name = next(iter(side.settings)).replace("_", ".")
            return f"side {side.name!r} sets {name} of the brokers, and they are not the trial's to set"
    return None


class ForeignKafka:
    """The Kafka at `bootstrap_servers`, as a context manager.

    `settings` are of a client that reads and makes topics, as keywords (`security_protocol`, ...). Topics begin with
    `topic_prefix`. `say` is told what could not be deleted. Raises Unreachable or NotKafka where no broker answers.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        settings: Mapping[str, Any],
        *,
        topic_prefix: str = TOPIC_PREFIX,
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
        self.kept: list[str] = []
        self._beginning = f"{topic_prefix}{secrets.token_hex(4)}"
        self._keeps_topics = keeps_topics
        self._say = say
        self._count = 0
        self.admin = Admin(bootstrap_servers, **self.settings)

    def __enter__(self) -> Self:
        try:
            self.brokers = len(self.admin.cluster().brokers)
        except BaseException:
            self.admin.close()
            raise
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.admin.close()

    def why_not(self, scenario: Scenario) -> str | None:
        """Why a scenario does not run here, in a clause; None where it does."""
        return why_not(scenario) or next(filter(None, (self._lacks(scenario, each) for each in scenario.sides)), None)

    def side(self, scenario: Scenario, side: Side) -> ForeignSide:
        """A topic of its own for this side."""
        self._count += 1
        name = re.sub(r"[^A-Za-z0-9_-]", "-", scenario.name)[:_NAME_MAX]
        return ForeignSide(self, scenario, side, f"{self._beginning}-{self._count}-{name}")

    def replicas(self, scenario: Scenario, side: Side) -> int:
        """How many the side's topic has: as many as it wants, else as on an embedded cluster, as far as there are."""
        return side.replicas or min(scenario.brokers, _REPLICAS_MAX, self.brokers)

    def make_topic(
        self, name: str, partitions: int, replicas: int, configs: Mapping[str, str], stack: ExitStack
    ) -> None:
        """Make a topic that `stack` deletes; one sentence says why it cannot be made."""
        with ExitStack() as undone:
            undone.callback(self._remove, name)
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

    def _lacks(self, scenario: Scenario, side: Side) -> str | None:
        wanted, there = self.replicas(scenario, side), f"{self.brokers} broker{'' if self.brokers == 1 else 's'}"
        if wanted > self.brokers:
            return f"side {side.name!r} wants {wanted} replicas, and {self.bootstrap_servers} has {there}"
        needed = side.topic.get(_IN_SYNC_MIN, "1")
        if needed.isdecimal() and int(needed) > wanted:
            return f"side {side.name!r} wants {_IN_SYNC_MIN}={needed}, and {self.bootstrap_servers} has {there}"
        return None

    def _refused(self, name: str, replicas: int, error: KafkaError) -> UserMistake:
        where = self.bootstrap_servers
        if error.code in _NOT_ALLOWED:
            return UserMistake(
                f"{where} does not let this user make the topic {name} ({error.name}): a trial needs CREATE, DESCRIBE, "
                "READ, WRITE and DELETE on topics with its prefix (--topic-prefix), and --command-config says who it is"
            )
        copies = f"{replicas} replica{'' if replicas == 1 else 's'}"
        return UserMistake(f"{where} does not make the topic {name} with {copies}: {error}")

    def _check_in_sync(self, name: str, replicas: int) -> None:
        """A cluster may want more replicas in sync than there are brokers; then it stores nothing with acks=all."""
        try:
            least = self.admin.describe_configs(topic=name)[_IN_SYNC_MIN].value or ""
        except (KafkaError, KeyError):
            return  # It may not be asked.
        if least.isdecimal() and int(least) > replicas:
            raise UserMistake(
                f"{self.bootstrap_servers} gives new topics {_IN_SYNC_MIN}={least}, and a trial's topic has {replicas} "
                "there: no record could be stored with acks=all"
            )

    def _remove(self, name: str) -> None:
        if self._keeps_topics:
            self.kept.append(name)
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


class ForeignSide(SideCluster):
    """A topic of a side's own on a foreign Kafka, and a proxy of its own in front of that."""

    def __init__(self, kafka: ForeignKafka, scenario: Scenario, side: Side, topic: str) -> None:
        self._kafka = kafka
        self._scenario = scenario
        self._side = side
        self.topic = self.transactional_id = topic
        self.read_from = kafka.bootstrap_servers
        self.reader_settings = kafka.settings
        given = {row.keyword: kafka.settings[row.keyword] for row in SECURITY_SETTINGS if row.keyword in kafka.settings}
        # SASL passes through the proxy; TLS is between the proxy and the brokers, and not on this machine.
        self.client_settings = {name: value for name, value in given.items() if name.startswith("sasl_")}
        self._upstream = {name: value for name, value in given.items() if not name.startswith("sasl_")}
        if str(given.get("security_protocol", "")).upper().startswith("SASL"):
            self.client_settings["security_protocol"] = "SASL_PLAINTEXT"

    def _open(self, stack: ExitStack) -> None:
        kafka, scenario, side = self._kafka, self._scenario, self._side
        replicas = kafka.replicas(scenario, side)
        kafka.make_topic(self.topic, scenario.partitions, replicas, side.topic, stack)
        proxy = stack.enter_context(Proxy(kafka.bootstrap_servers, upstream_settings=self._upstream))
        self.bootstrap_servers = proxy.bootstrap_servers
        self.faults = proxy.faults

    def _first_partition(self) -> tuple[int, Sequence[int]]:
        first = self._kafka.admin.describe(self.topic).partitions[0]
        if first.leader is None:
            raise OttlaError(f"{self.topic}-0 at {self.read_from} has no leader")
        return first.leader, first.replicas

    def in_sync(self) -> int:
        """As brokers tell clients."""
        return len(self._kafka.admin.describe(self.topic).partitions[0].isr)

    def settle(self) -> None:
        """Until nothing more arrives, and no transaction is open, or for 20 s: one may stay open on purpose."""
        if str(self._side.producer.get("acks", "all")) == "0":
            last: dict[int, int] = {}

            def is_quiet() -> bool:
                nonlocal last
                before, last = last, self._kafka.admin.end_offsets(self.topic)
                return before == last

            comes_within(_SETTLE_S, is_quiet, look_again_s=_QUIET_S)
        if self._side.transaction_records:
            committed = {**self.reader_settings, "isolation_level": "read_committed"}
            with Admin(self.read_from, **committed) as stable:
                comes_within(
                    _SETTLE_S,
                    lambda: stable.end_offsets(self.topic) == self._kafka.admin.end_offsets(self.topic),
                    look_again_s=_QUIET_S,
                )
