"""`Admin`: calls about topics, settings, offsets, records, transactions and the cluster; each waits for its answer.

The requests and their answers are handled in one file for each subject: `topic_admin.py`, `config_admin.py`,
`partition_admin.py`, `log_dirs.py`, `transaction_admin.py`. `AdminDriver` sends them on an I/O thread of its own.
Errors that may pass (a leader moves, a controller changes) are retried until `default.api.timeout.ms` is over.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from ottla.addresses import addresses_of
from ottla.client.admin_driver import AdminDriver
from ottla.client.channel import SocketBuffers
from ottla.client.config_admin import ConfigAdmin, ConfigDescription, config_text
from ottla.client.lifetime import OfOneProcess
from ottla.client.partition_admin import PartitionAdmin
from ottla.client.topic_admin import ClusterDescription, TopicAdmin, TopicDescription
from ottla.connection.setting import named_in_help, shown
from ottla.errors import OttlaError, UserMistake
from ottla.foreign_names import OF_ADMIN, no_attribute, servers_come_first
from ottla.protocol.messages.create_topics import CreatableTopicConfig
from ottla.reader.position import EARLIEST, LATEST
from ottla.reader.settings import READER_SETTINGS, ReaderSettings

if TYPE_CHECKING:
    from ottla.client.log_dirs import LogDirDescription
    from ottla.client.reader_settings_keywords import ReaderSettingsKeywords
    from ottla.client.transaction_admin import ListedTransaction, TransactionAdmin, TransactionDescription
    from ottla.producer.transaction_states import TransactionIdentity


class Admin(OfOneProcess):
    """Makes, changes, deletes and describes topics, changes settings, looks up offsets; `with` closes it.

    Settings are keywords, Kafka's names with underscores; `help("ottla.client.reader_settings_keywords")` lists them.
    Every call raises KafkaError for what a broker refuses, Unreachable or NotKafka when no broker answers
    within `default.api.timeout.ms`.
    """

    @servers_come_first
    @named_in_help(READER_SETTINGS)
    def __init__(self, bootstrap_servers: str | Sequence[str], **settings: Unpack[ReaderSettingsKeywords]) -> None:
        # The reader's settings: a program that plans a read by Admin and reads by Reader passes the same ones to both.
        self._settings = ReaderSettings({"bootstrap_servers": bootstrap_servers, **settings})
        self._driver = driver = AdminDriver(
            self._settings, Random(), SocketBuffers.of(self._settings.connection, settings)
        )
        self._topics = TopicAdmin(driver, self._settings.connection.request_timeout_ms)
        self._configs = ConfigAdmin(driver)
        self._partitions = PartitionAdmin(driver, self._topics, self._settings)
        self._transactions: TransactionAdmin | None = None
        self._closing = weakref.finalize(self, driver.close)
        self._closing.atexit = False
        driver.start()

    # ---- topics -------------------------------------------------------------------------------------------------

    def create_topics(
        self,
        topics: str | Iterable[str] | Mapping[str, int],
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, Any] | None = None,
    ) -> None:
        """Make topics and return when they can be used.

        `topics`: a name, several names, or {name: number of partitions}. `partitions`: the number for each of them, by
        default 1. Without `replication_factor` the brokers' default is used. UserMistake if numbers are given in both
        ways, and for what is neither a name nor a number.

        Topics can be used when every live broker knows them; a broker that does not answer within two seconds is not
        waited for.
        """
        counts = _partition_counts(topics, partitions)
        settings = [
            CreatableTopicConfig(name=name, value=None if value is None else config_text(value))
            for name, value in (configs or {}).items()
        ]
        self._topics.create(counts, replication_factor, settings)

    def delete_topics(self, topics: str | Iterable[str]) -> None:
        """Delete topics with all their records."""
        self._topics.delete(_names("delete_topics", topics))

    def list_topics(self) -> list[str]:
        """The names of all topics, sorted, without the cluster's internal ones."""
        return self._topics.listed()

    def describe(self, topic: str, *, include_authorized_operations: bool = False) -> TopicDescription:
        """The topic's id and partitions; KafkaError where there is no such topic.

        With `include_authorized_operations` also what this user may do with it (brokers from Kafka 2.3 on).
        """
        return self._topics.describe(topic, include_authorized_operations=include_authorized_operations)

    def cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return self._topics.cluster()

    def describe_log_dirs(self, broker_ids: Iterable[int] | None = None) -> dict[int, tuple[LogDirDescription, ...]]:
        """{broker id: its folders of logs}, with the size of every log in them, in bytes as stored (compressed).

        Without `broker_ids`, of all brokers. KafkaError (CLUSTER_AUTHORIZATION_FAILED) for a user without DESCRIBE on
        the cluster.
        """
        # Imported here: most programs never call this.
        from ottla.client.log_dirs import describe_log_dirs

        ids = [broker.broker_id for broker in self.cluster().brokers] if broker_ids is None else list(broker_ids)
        found: dict[int, tuple[LogDirDescription, ...]] = {}

        def attempt() -> OttlaError | None:
            left = {broker_id: None for broker_id in ids if broker_id not in found}
            told, error = describe_log_dirs(self._driver, left, self._settings.connection.request_timeout_ms)
            found.update(told)
            return error

        self._driver.until_well(attempt)
        return dict(sorted(found.items()))

    # ---- partitions and settings --------------------------------------------------------------------------------

    def create_partitions(self, topic: str, count: int) -> None:
        """Give a topic more partitions, `count` in all; keys may belong to other partitions from then on.

        Returns when every live broker knows them. KafkaError (INVALID_PARTITIONS) if the topic has that many already.
        """
        self._topics.create_partitions(topic, count)

    def describe_configs(
        self, *, topic: str | None = None, broker_id: int | None = None
    ) -> dict[str, ConfigDescription]:
        """Settings by name: of a topic, of a broker, or (neither given) those changed for all brokers."""
        return self._configs.describe(topic, broker_id)

    def alter_configs(
        self, configs: Mapping[str, Any], *, topic: str | None = None, broker_id: int | None = None
    ) -> None:
        """Change settings of a topic, of a broker, or (neither given) of all brokers.

        A value of None sets the default again. Settings that are not in `configs` stay as they are.
        """
        self._configs.alter(configs, topic, broker_id)

    # ---- offsets ------------------------------------------------------------------------------------------------

    def begin_offsets(self, topic: str) -> dict[int, int]:
        """{partition: offset of its first record}."""
        return self._partitions.offsets(topic, EARLIEST)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """{partition: offset its next record will have}; with isolation_level="read_committed" the last stable one."""
        return self._partitions.offsets(topic, LATEST)

    def delete_records(self, topic: str, offsets: Mapping[int, int]) -> dict[int, int]:
        """Delete the records before these offsets, {partition: offset}; -1 deletes all that consumers could read.

        Returns {partition: offset of its first record} once all replicas on live brokers have deleted them. KafkaError:
        OFFSET_OUT_OF_RANGE for an offset above the high watermark, POLICY_VIOLATION for a topic that is only compacted.
        """
        return self._partitions.delete_records(topic, offsets)

    # ---- transactions -------------------------------------------------------------------------------------------

    def list_transactions(self, prefix: str = "", states: Iterable[str] = ()) -> list[ListedTransaction]:
        """The transactional ids that begin with `prefix`, of all coordinators, sorted by id, each with its state.

        With `states` ("Ongoing", "Empty", ...) only those in one of them. Every broker is asked; one that is gone or
        still loading is waited for, until it answers or is no longer among the cluster's brokers.
        """
        return transactions_of(self).listed(prefix, _names("list_transactions", states))

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """What coordinators have stored of these transactional ids; ids that were never used are left out."""
        return transactions_of(self).describe(_names("describe_transactions", transactional_ids))

    def fence_producers(
        self, transactional_ids: Iterable[str], *, transaction_timeout_ms: int = 60_000
    ) -> dict[str, TransactionIdentity]:
        """Fence all producers of these transactional ids, and return {transactional id: its next identity}.

        Open transactions are aborted; a commit that has begun is completed first. `Producer.init_transactions` takes
        the identity, whose transactions may then last `transaction_timeout_ms`. Raises KafkaError.
        """
        ids = _names("fence_producers", transactional_ids)
        return transactions_of(self).fence(ids, transaction_timeout_ms)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, OF_ADMIN)

    def __repr__(self) -> str:
        return f"<Admin for {addresses_of(self._settings.connection.bootstrap_servers)}, {self._driver.state}>"

    def close(self) -> None:
        """Close the connections and end the I/O thread."""
        self._driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def transactions_of(admin: Admin) -> TransactionAdmin:
    """This client's `TransactionAdmin`: for other parts of ottla, which call more of it than `Admin` does."""
    if admin._transactions is None:
        # Imported here: most programs use no transactions.
        from ottla.client.transaction_admin import TransactionAdmin

        admin._transactions = TransactionAdmin(admin._driver, admin._settings)
    return admin._transactions


def _names(call: str, given: str | Iterable[str]) -> list[str]:
    """The names given to a call, each once; UserMistake for a mapping, and for what is not a str."""
    if isinstance(given, Mapping):
        raise UserMistake(f"{call} takes a name or a list of names, not {{name: ...}}: give list(...) of it.")
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if not isinstance(name, str):
            raise UserMistake(f"{call} was given {shown(name, is_private=False)} as a name: names are str.")
    return list(dict.fromkeys(names))


def _partition_counts(topics: str | Iterable[str] | Mapping[str, int], partitions: int | None) -> dict[str, int]:
    """Topic -> number of partitions; UserMistake as in `create_topics`."""
    if not isinstance(topics, Mapping):
        return dict.fromkeys(_names("create_topics", topics), 1 if partitions is None else partitions)
    if partitions is not None:
        raise UserMistake("create_topics was given partitions twice: give {name: partitions} or partitions=, not both.")
    names = _names("create_topics", list(topics))
    for name in names:
        if not isinstance(topics[name], int) or isinstance(topics[name], bool):
            told = shown(topics[name], is_private=False)
            raise UserMistake(f"create_topics was given {told} for the partitions of {name!r}: give a whole number.")
    return dict(topics)
