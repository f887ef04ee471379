"""Brokers of Kafka 2.4, whose requests have fewer fields than today's: an embedded one whose newest versions are those.

The newest versions that a broker of Kafka 2.4.1 names stand below, as one said them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import Consumer
from tests.client.altering_proxy import AlteringProxy

import ottla
from ottla.cli import main
from ottla.client.offset_lookup import OffsetLookup
from ottla.protocol.frames import decode_response, encode_response
from ottla.protocol.messages import API_VERSIONS
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest
from ottla.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest

# From Produce (0) to OffsetDelete (47): the newest version.
_NEWEST = (
    *(8, 11, 5, 9, 4, 2, 6, 3, 8, 6, 3, 6, 4, 4, 4, 5, 3, 1, 3, 5, 4, 1, 2, 3, 1, 1, 1, 0, 2, 1, 1, 1, 2, 1, 1, 1),
    *(1, 1, 2, 1, 1, 1, 2, 2, 1, 0, 0, 0),
)
KAFKA_2_4 = dict(enumerate(_NEWEST))
_PATIENCE_S = 60


class OldProxy(AlteringProxy):
    """In front of a broker that is said to know no newer versions: {API key: the newest}."""

    def __init__(self, bootstrap_servers: str, newest: Mapping[int, int] = KAFKA_2_4) -> None:
        super().__init__(bootstrap_servers, [], API_VERSIONS)
        self._newest = newest

    def _altered(self, frame: bytes, version: int) -> bytes | None:
        correlation_id, message = decode_response(memoryview(frame), ApiVersionsRequest, version)
        message.supported_features, message.finalized_features = [], []
        message.api_keys = [each for each in message.api_keys if self._newest.get(each.api_key, -1) >= each.min_version]
        for each in message.api_keys:
            each.max_version = min(each.max_version, self._newest[each.api_key])
        return b"".join(bytes(chunk) for chunk in encode_response(correlation_id, message, version))


@pytest.fixture
def old() -> Iterator[str]:
    """The address of a broker of Kafka 2.4."""
    with ottla.Cluster(brokers=1) as cluster:
        proxy = OldProxy(cluster.bootstrap_servers)
        yield proxy.bootstrap_servers
        proxy.close()


def test_records_are_sent_in_and_out_of_transactions_and_read(old: str) -> None:
    with ottla.Admin(old) as admin:
        admin.create_topics("orders", partitions=2, configs={"retention.ms": "60000"})
        with ottla.Producer(old, compression_type="zstd") as producer:
            assert producer.send("orders", b"1", partition=0).result(_PATIENCE_S).offset == 0
        with ottla.Producer(old, transactional_id="billing") as producer:
            with producer.transaction():
                producer.send("orders", b"2", partition=0)
                producer.send_offsets_to_transaction({("orders", 0): 1}, "billing")
            producer.begin_transaction()
            producer.send("orders", b"3", partition=0).result(_PATIENCE_S)
            producer.abort_transaction()
        table = ottla.read_table(old, "orders", isolation_level="read_committed")
        assert table["value"].to_pylist() == [b"1", b"2"]
        assert admin.describe_configs(topic="orders")["retention.ms"].value == "60000"
        admin.create_partitions("orders", 3)
        assert admin.delete_records("orders", {0: 1}) == {0: 1}
        admin.delete_topics("orders")
        assert admin.list_topics() == []


def test_groups_are_listed_moved_and_deleted(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    with ottla.Admin(old) as admin:
        admin.create_topics("orders")
    with ottla.Producer(old) as producer:
        for number in range(3):
            producer.send("orders", b"%d" % number)
    member = Consumer({"bootstrap.servers": old, "group.id": "billing", "auto.offset.reset": "earliest"})
    member.subscribe(["orders"])
    assert len(member.consume(3, _PATIENCE_S)) == 3
    member.commit(asynchronous=False)
    member.close()
    OffsetLookup(old).commit("accounts", {("orders", 0): 1}, 30_000)

    def told(*arguments: str) -> str:
        assert main([*arguments, "-b", old]) == 0
        return " ".join(capsys.readouterr().out.split())

    # Neither the protocol nor the state stands in the list of such a broker.
    assert "accounts unknown unknown 1 2 billing unknown unknown 1 0" in told("groups")
    assert "orders 0 3 3 0" in told("groups", "billing")
    assert "orders 0 3 0 0 3" in told("groups", "reset", "billing", "--to", "earliest", "--execute")
    assert "orders 0 0 3 3" in told("groups", "billing")
    told("groups", "delete", "billing")
    assert "billing" not in told("groups")


def test_transactional_ids_are_listed_by_their_prefix_where_a_broker_knows_no_patterns() -> None:
    # Kafka 3.0 to 4.0 list them, Kafka 4.1 takes a pattern (KIP-1152).
    newest = {**dict.fromkeys(range(100), 99), ListTransactionsRequest.API_KEY: 1}
    with ottla.Cluster(brokers=1) as cluster:
        proxy = OldProxy(cluster.bootstrap_servers, newest)
        with ottla.Admin(proxy.bootstrap_servers) as admin:
            admin.fence_producers(["billing-1", "billing-2", "orders-1"])
            for _ in range(2):
                listed = admin.list_transactions("billing-")
                assert [each.transactional_id for each in listed] == ["billing-1", "billing-2"]
        proxy.close()


def test_a_call_that_the_broker_does_not_know_is_refused_at_once() -> None:
    newest = dict.fromkeys(range(100), 99)
    for unknown in (IncrementalAlterConfigsRequest, DeleteRecordsRequest, DescribeConfigsRequest):
        del newest[unknown.API_KEY]
    with ottla.Cluster(brokers=1) as cluster:
        proxy = OldProxy(cluster.bootstrap_servers, newest)
        with ottla.Admin(proxy.bootstrap_servers) as admin:
            admin.create_topics("orders")
            # Not Unreachable, after which programs try again.
            with pytest.raises(ottla.KafkaError, match="does not know IncrementalAlterConfigs") as refused:
                admin.alter_configs({"retention.ms": 1}, topic="orders")
            assert refused.value.name == "UNSUPPORTED_VERSION"
            assert not refused.value.retriable
            with pytest.raises(ottla.KafkaError, match="does not know DeleteRecords") as refused:
                admin.delete_records("orders", {0: 0})
            assert refused.value.name == "UNSUPPORTED_VERSION"
        # The first request of all: of its broker no more is known than the address.
        with ottla.Admin(proxy.bootstrap_servers) as admin:
            with pytest.raises(ottla.KafkaError, match="does not know DescribeConfigs") as refused:
                admin.describe_configs(topic="orders")
            assert refused.value.broker_id is None or refused.value.broker_id >= 0
        proxy.close()


def test_a_default_replication_factor_that_cannot_be_used_is_named_with_what_to_give_instead() -> None:
    # Brokers before Kafka 2.4 refuse the default with the same error code: they take it for a number.
    with (
        ottla.Cluster(brokers=1, settings={"default.replication.factor": 3}) as cluster,
        ottla.Admin(cluster.bootstrap_servers) as admin,
    ):
        with pytest.raises(ottla.KafkaError, match=r"INVALID_REPLICATION_FACTOR.*Give replication_factor: "):
            admin.create_topics("orders")
        with pytest.raises(ottla.KafkaError, match="INVALID_REPLICATION_FACTOR") as refused:
            admin.create_topics("orders", replication_factor=2)
        assert "Give replication_factor" not in str(refused.value)
        admin.create_topics("orders", replication_factor=1)
