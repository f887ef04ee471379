"""Trials on a Kafka that is not ottla's own: a topic of each side's own there, and a proxy in front of it.

    topic made -> proxy -> faults there, client sends through it -> healed -> read from the Kafka itself -> deleted

Only this client goes through the proxy, so no other client meets its faults. What happens inside of brokers is not
seen, and a proxy cannot cause faults there: `why_not` says of a scenario why it does not run there.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ottla.client.admin import Admin
from ottla.errors import ConfigError, KafkaError, OttlaError, Unreachable
from ottla.foreign.kafka import IN_SYNC_MIN, ForeignKafka
from ottla.patience import comes_within, stays_within
from ottla.protocol.error_codes import ErrorCode
from ottla.proxy.faults_in_force import KINDS, check_proxied
from ottla.trial.scenario import COORDINATOR, PLAINTEXT, ROLES, SENDFILE, Scenario, Side, TimedFault
from ottla.trial.side_cluster import SideCluster

TOPIC_PREFIX = "ottla-trial-"
_NAME_MAX = 40
# Brokers look every 10 s for transactions that have timed out.
_SETTLE_S = 20.0
# Records with acks=0 get no answer: they count as arrived when nothing more has come for so long.
_QUIET_S = 0.5
# A trial whose Kafka cannot be reached any more would wait for the timeout of every record and every transaction.
_CHECK_EVERY_S = 5.0


def why_not(scenario: Scenario, kafka: ForeignKafka | None = None) -> str | None:
    """Why a scenario runs on embedded clusters only, or not on this Kafka, in a clause; None where it does."""
    reasons = [_not_by_proxy(planned) for planned in scenario.faults]
    if scenario.chooses_partition:
        reasons.append(
            "its partitions need leaders on different brokers, and where they are is not the trial's to choose"
        )
    for side in scenario.sides:
        if side.settings:
            name = next(iter(side.settings)).replace("_", ".")
            reasons.append(f"side {side.name!r} sets {name} of the brokers, and they are not the trial's to set")
        if side.group:
            reasons.append(f"side {side.name!r} reads as a member of a group, with timeouts that brokers decide on")
        if side.listener != PLAINTEXT or SENDFILE in (*side.least, *side.most):
            reasons.append(f"side {side.name!r} is about what brokers do with their sockets, which nobody sees there")
        if kafka is not None:
            reasons.append(_lack(kafka, scenario, side))
    return next(filter(None, reasons), None)


def _not_by_proxy(planned: TimedFault) -> str | None:
    kind = planned.fault.kind
    if kind not in KINDS:
        return f"the fault {kind} is about brokers, and a proxy reaches only requests and connections"
    if planned.role == COORDINATOR:
        return f"the fault {kind} is about the coordinator, and a proxy does not know which broker that is"
    try:
        check_proxied(planned.fault)
    except ConfigError as error:
        return str(error)
    return None


def _lack(kafka: ForeignKafka, scenario: Scenario, side: Side) -> str | None:
    """What a side needs that this Kafka has too few brokers for."""
    replicas, there = _replicas(kafka, scenario, side), f"{kafka.brokers} broker{'' if kafka.brokers == 1 else 's'}"
    if replicas > kafka.brokers:
        return f"side {side.name!r} wants {replicas} replicas, and {kafka.bootstrap_servers} has {there}"
    needed = side.topic.get(IN_SYNC_MIN, "1")
    if needed.isdecimal() and int(needed) > replicas:
        return f"side {side.name!r} wants {IN_SYNC_MIN}={needed}, and {kafka.bootstrap_servers} has {there}"
    roles = [planned.role for planned in scenario.faults if planned.role in ROLES[replicas:]]
    return f"a fault is about the {roles[0]}, and {kafka.bootstrap_servers} has {there}" if roles else None


def _replicas(kafka: ForeignKafka, scenario: Scenario, side: Side) -> int:
    """As many as the side asks for, else as on an embedded cluster, as far as there are brokers."""
    return side.replicas or min(scenario.brokers, kafka.most_replicas)


class ForeignSide(SideCluster):
    """A topic of a side's own on a foreign Kafka, and a proxy of its own in front of that."""

    def __init__(self, kafka: ForeignKafka, scenario: Scenario, side: Side) -> None:
        self._kafka = kafka
        self._scenario = scenario
        self._side = side
        trial, place = (re.sub(r"[^A-Za-z0-9_-]", "-", each)[:_NAME_MAX] for each in (scenario.name, side.name))
        self.topic = self.transactional_id = f"{kafka.beginning}-{secrets.token_hex(2)}-{trial}-{place}"
        self.read_from = kafka.bootstrap_servers
        self.reader_settings = kafka.settings
        self.client_settings = kafka.client_settings
        self._check_at_s = time.monotonic() + _CHECK_EVERY_S

    def _open(self, stack: ExitStack) -> None:
        kafka, scenario, side = self._kafka, self._scenario, self._side
        kafka.make_topic(self.topic, scenario.partitions, _replicas(kafka, scenario, side), side.topic, stack)
        self._topic_id = kafka.admin.describe(self.topic).topic_id
        self._proxy = proxy = stack.enter_context(kafka.proxy())
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

    def check(self) -> None:
        """Asks the brokers every few seconds."""
        if time.monotonic() < self._check_at_s:
            return
        with self._going_away():
            self._kafka.admin.cluster()
        self._check_at_s = time.monotonic() + _CHECK_EVERY_S

    def settle(self, late_s: float) -> str | None:
        """Until nothing more arrives, and no transaction is open, or for 20 s: one may stay open on purpose."""
        if not comes_within(late_s + _SETTLE_S, self._is_answered):
            return f"the brokers had not answered all requests {_SETTLE_S:g} s after the last fault had ended"
        self._check_topic()
        if str(self._side.producer.get("acks", "all")) == "0" and not stays_within(
            _SETTLE_S, lambda: self._kafka.admin.end_offsets(self.topic), _QUIET_S
        ):
            return "records were still stored when the topic was read"
        if self._side.transaction_records:
            committed = {**self.reader_settings, "isolation_level": "read_committed"}
            with Admin(self.read_from, **committed) as stable:
                comes_within(
                    _SETTLE_S,
                    lambda: stable.end_offsets(self.topic) == self._kafka.admin.end_offsets(self.topic),
                    look_again_s=_QUIET_S,
                )
        return None

    def _is_answered(self) -> bool:
        """Whether the brokers have answered everything that came by the proxy."""
        return not self._proxy.describe()["under_way"]

    def _check_topic(self) -> None:
        """OttlaError where the topic was deleted meanwhile: then nothing can be said of its records."""
        try:
            with self._going_away():
                deleted = self._kafka.admin.describe(self.topic).topic_id != self._topic_id
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            deleted = True
        if deleted:
            raise OttlaError(
                f"somebody has deleted the topic {self.topic} at {self.read_from} while the trial ran: "
                "nothing can be said of what was stored; run it again"
            )

    @contextmanager
    def _going_away(self) -> Iterator[None]:
        """Say in the error of a Kafka that does not answer that it answered before."""
        try:
            yield
        except Unreachable as gone:
            raise Unreachable(f"the Kafka at {self.read_from} went away in the middle of a trial: {gone}") from None
