"""The Kafka that is looked at: one connection for questions, and readers and producers made for as long as they work.

What every view needs stands here: the cluster's metadata, kept for a second so that a page with many parts asks once,
and the leaders of partitions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from ottla.client.admin import Admin, transactions_of
from ottla.client.admin_driver import AdminDriver
from ottla.client.group_admin import GroupAdmin
from ottla.client.partition_offsets import Place
from ottla.client.reader import Reader
from ottla.client.transaction_admin import TransactionAdmin
from ottla.connection.request import ANY_NODE
from ottla.errors import KafkaError
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.metadata import MetadataRequest

_METADATA_S = 1.0
# A page shows a few hundred records and a search reads many: neither may have a topic in memory. The larger bounds
# are the search's.
_PAGE_FETCH_BYTES, _PAGE_AHEAD_BYTES = 1 << 20, 4 << 20
_SEARCH_FETCH_BYTES, _SEARCH_AHEAD_BYTES = 2 << 20, 8 << 20


class Kafka:
    """One cluster; may be used by many threads. `reading` and `writing` are settings of clients, by keyword."""

    def __init__(self, bootstrap_servers: str, reading: Mapping[str, Any], writing: Mapping[str, Any]) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._reading = dict(reading)
        self.writing = dict(writing)
        self.admin = Admin(bootstrap_servers, **reading)
        self.groups = GroupAdmin(self.driver, self.admin._settings)
        self._lock = threading.Lock()
        self._metadata: Any = None
        self._metadata_until = 0.0
        # Callers that come meanwhile wait for the same answer: a broker that does not answer is asked once, and not by
        # each of them.
        self._asked: Future[Any] | None = None
        # What asks of transactions remembers their coordinators, for one thread at a time.
        self.of_transactions = threading.Lock()

    @property
    def driver(self) -> AdminDriver:
        """What asks single questions."""
        return self.admin._driver

    @property
    def transactions(self) -> TransactionAdmin:
        """What asks about transactions; hold `of_transactions`."""
        return transactions_of(self.admin)

    def metadata(self, *, fresh: bool = False) -> Any:
        """All brokers, topics and partitions, as a broker has told within the last second. Raises Unreachable.

        `fresh`: as a broker tells from now on.
        """
        with self._lock:
            if not fresh and self._metadata is not None and time.monotonic() < self._metadata_until:
                return self._metadata
            of_another = None if fresh else self._asked
            asked: Future[Any] = of_another or Future()
            self._asked = asked
        return asked.result() if of_another else self._ask(asked)

    def _ask(self, asked: Future[Any]) -> Any:
        """Ask for the metadata; all that wait for `asked` get the same answer, or the same error."""
        try:
            found = self.driver.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), ANY_NODE).message
            # Of a topic that it does not know by its id a broker tells no name; nothing else can be asked about it.
            found.topics = [each for each in found.topics if each.name is not None]
        except BaseException as error:
            self._keep(asked, None)
            asked.set_exception(error)
            raise
        self._keep(asked, found)
        asked.set_result(found)
        return found

    def _keep(self, asked: Future[Any], found: Any) -> None:
        with self._lock:
            # Otherwise the metadata was asked for again later, and that newer answer counts.
            if self._asked is asked:
                self._asked = None
                self._metadata, self._metadata_until = found, time.monotonic() + _METADATA_S

    def topic(self, name: str) -> Any:
        """The metadata of one topic; KafkaError (UNKNOWN_TOPIC_OR_PARTITION) where there is none."""
        for is_fresh in (False, True):
            found = next((each for each in self.metadata(fresh=is_fresh).topics if each.name == name), None)
            if found is not None and not found.error_code:
                return found
        raise self._no_topic(name, found)

    def _no_topic(self, name: str, found: Any) -> KafkaError:
        code = found.error_code if found is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        missing = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return kafka_error(code, "there is no such topic (any more)" if missing else "", topic=name)

    def leaders(self, topic: str | None = None) -> dict[Place, int]:
        """{(topic, partition): id of its leader} of one topic or of all, without partitions that have no leader."""
        topics = self.metadata().topics if topic is None else [self.topic(topic)]
        return {
            (each.name, part.partition_index): part.leader_id
            for each in topics
            for part in each.partitions
            if part.leader_id >= 0
        }

    def reader(self, assignments: Mapping[Place, tuple[Any, Any]], *, committed: bool = False, long: bool) -> Reader:
        """A reader of these ranges; of little memory, and of somewhat more for a `long` way."""
        isolation = "read_committed" if committed else "read_uncommitted"
        settings = {
            **self._reading,
            "isolation_level": isolation,
            "max_partition_fetch_bytes": _SEARCH_FETCH_BYTES if long else _PAGE_FETCH_BYTES,
            "fetch_max_bytes": _SEARCH_AHEAD_BYTES if long else _PAGE_AHEAD_BYTES,
            "prefetch_max_bytes": _SEARCH_AHEAD_BYTES if long else _PAGE_AHEAD_BYTES,
        }
        return Reader(self.bootstrap_servers, assignments=assignments, **settings)

    def close(self) -> None:
        """Close the connections."""
        self.admin.close()
