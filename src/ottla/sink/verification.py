"""Whether brokers verify that what is written belongs to an open transaction (KIP-890), as Kafka 3.6 and later do.

Without this, a late Produce request of an aborted attempt may begin a transaction again. Then readers with
`read_committed` wait forever, or a later transaction of the same producer commits these rows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.client.admin import Admin
from ottla.errors import KafkaError, Unreachable, UserMistake

_log = logging.getLogger("ottla.sink")

_SETTING = "transaction.partition.verification.enable"
# Apache Kafka before 4.0 has this setting. A broker that has it and lacks the other one is older than 3.6.
_OF_APACHE_KAFKA = "inter.broker.protocol.version"


def check(admin: Admin) -> None:
    """UserMistake if brokers do not verify transactions; the first broker that answers counts for all."""
    why: str | None = None
    try:
        for broker in admin.cluster().brokers:
            try:
                told = admin.describe_configs(broker_id=broker.broker_id)
            except Unreachable:
                continue
            why = problem({name: each.value for name, each in told.items()})
            break
    except (KafkaError, Unreachable) as error:
        # This user may not be allowed to read the brokers' settings.
        _log.info("whether brokers verify transactions is not known: %s", error)
    if why is not None:
        raise UserMistake(f"delivery=exactly-once needs brokers that verify transactions (KIP-890), and {why}")


def problem(settings: Mapping[str, str | None]) -> str | None:
    """Why a broker with these settings does not verify transactions; None if it does, or if that is unknown."""
    value = settings.get(_SETTING)
    if value == "false":
        return f"these have {_SETTING}=false: set it to true"
    if value is None and _OF_APACHE_KAFKA in settings:
        return "these are older than Kafka 3.6: update them"
    return None
