"""One valid request for every API that clients ask for: its fields, in all versions at once; see `kio_wire.build`.

What is not given has its default: an API that takes defaults alone needs no case. A case prepares what the request is
about (a topic, a member, a transaction) and gives its fields, so that no answer has an error in it. Three APIs are
asked somewhere else for that; `PLACES` says where.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from ottla.records.plain import Record, encode_batch

from .kio_wire import KioWire

USER, PASSWORD = "user", "password"
_TIMEOUT_MS = 60_000
_TOPIC_RESOURCE = 2


@dataclasses.dataclass
class Situation:
    """Where a request is asked: a topic of two partitions with three records in the first, and a name free for use."""

    wire: KioWire
    version: int
    topic: str
    topic_id: Any
    name: str

    def member(self) -> tuple[str, int]:
        """(id, generation) of the only member of the group `name`."""
        answer = self.wire.ask(11, 4, **joining(self, self.wire.ask(11, 4, **joining(self)).member_id))
        assignment = [{"member_id": answer.member_id, "assignment": b""}]
        fields = {"member_id": answer.member_id, "generation_id": answer.generation_id, "assignments": assignment}
        self.wire.ask(14, 3, group_id=self.name, **fields)
        return answer.member_id, answer.generation_id

    def producer(self) -> dict[str, Any]:
        """A transactional producer called `name`."""
        answer = self.wire.ask(22, 4, transactional_id=self.name, transaction_timeout_ms=_TIMEOUT_MS)
        epoch = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
        return {"transactional_id": self.name, **epoch}

    def transaction(self) -> dict[str, Any]:
        """A producer with a transaction open in the topic."""
        producer = self.producer()
        self.wire.ask(24, 3, **{f"v3_and_below_{name}": value for name, value in adding(self, producer).items()})
        return producer


def adding(at: Situation, producer: dict[str, Any]) -> dict[str, Any]:
    return {**producer, "topics": [{"name": at.topic, "partitions": [0, 1]}]}


def batch(**more: Any) -> bytes:
    """Three records, as a producer sends them."""
    return encode_batch([Record(n, 1_700_000_000_000 + n, b"key", b"value %d" % n) for n in range(3)], **more)


def produce(at: Situation) -> dict[str, Any]:
    data = [{"index": 0, "records": batch()}, {"index": 1, "records": batch(codec="lz4")}]
    topics = [{"name": at.topic, "topic_id": at.topic_id, "partition_data": data}]
    return {"acks": -1, "timeout_ms": _TIMEOUT_MS, "topic_data": topics}


def fetch(at: Situation) -> dict[str, Any]:
    partitions = [{"partition": n, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for n in range(2)]
    topics = [{"topic": at.topic, "topic_id": at.topic_id, "partitions": partitions}]
    limits = {"max_wait_ms": 10, "min_bytes": 1, "max_bytes": 1 << 20}
    return {"replica_id": -1, "session_epoch": -1, "topics": topics, **limits}


def list_offsets(at: Situation) -> dict[str, Any]:
    # Each partition once: named twice it is refused.
    partitions = [{"partition_index": n, "timestamp": when} for n, when in enumerate((1_700_000_000_001, -1))]
    return {"replica_id": -1, "topics": [{"name": at.topic, "partitions": partitions}], "timeout_ms": _TIMEOUT_MS}


def metadata(at: Situation) -> dict[str, Any]:
    return {"topics": [{"name": at.topic}], "allow_auto_topic_creation": False}


def offset_commit(at: Situation) -> dict[str, Any]:
    member_id, generation = at.member()
    partitions = [{"partition_index": 0, "committed_offset": 2, "committed_metadata": "here"}]
    topics = [{"name": at.topic, "topic_id": at.topic_id, "partitions": partitions}]
    fields = {"member_id": member_id, "generation_id_or_member_epoch": generation, "topics": topics}
    return {"group_id": at.name, **fields, "retention_time_ms": -1}


def offset_fetch(at: Situation) -> dict[str, Any]:
    at.wire.ask(8, 8, **offset_commit(at))
    topics = [{"name": at.topic, "topic_id": at.topic_id, "partition_indexes": [0, 1]}]
    return {"group_id": at.name, "topics": topics, "groups": [{"group_id": at.name, "topics": topics}]}


def find_coordinator(at: Situation) -> dict[str, Any]:
    return {"key": at.name, "coordinator_keys": [at.name, "another"]}


def joining(at: Situation, member_id: str = "") -> dict[str, Any]:
    timeouts = {"session_timeout_ms": _TIMEOUT_MS, "rebalance_timeout_ms": _TIMEOUT_MS}
    protocols = [{"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}]
    member = {"group_id": at.name, "member_id": member_id}
    return {**member, "protocol_type": "consumer", "protocols": protocols, **timeouts}


def join_group(at: Situation) -> dict[str, Any]:
    # From version 4 on a new member is told its id and is to ask again with it (MEMBER_ID_REQUIRED).
    return joining(at, at.wire.ask(11, at.version, **joining(at)).member_id if at.version >= 4 else "")


def heartbeat(at: Situation) -> dict[str, Any]:
    member_id, generation = at.member()
    return {"group_id": at.name, "member_id": member_id, "generation_id": generation}


def leave_group(at: Situation) -> dict[str, Any]:
    member_id, _ = at.member()
    return {"group_id": at.name, "member_id": member_id, "members": [{"member_id": member_id, "reason": "done"}]}


def sync_group(at: Situation) -> dict[str, Any]:
    return {**heartbeat(at), "protocol_type": "consumer", "protocol_name": "range"}


def describe_groups(at: Situation) -> dict[str, Any]:
    at.member()
    return {"groups": [at.name]}


def list_groups(at: Situation) -> dict[str, Any]:
    at.member()
    return {"states_filter": [], "types_filter": []}


def sasl_handshake(at: Situation) -> dict[str, Any]:
    return {"mechanism": "PLAIN"}


def sasl_authenticate(at: Situation) -> dict[str, Any]:
    at.wire.ask(17, 1, **sasl_handshake(at))
    return {"auth_bytes": f"\0{USER}\0{PASSWORD}".encode()}


def api_versions(at: Situation) -> dict[str, Any]:
    return {"client_software_name": "kio", "client_software_version": "1.0"}


def create_topics(at: Situation) -> dict[str, Any]:
    configs = [{"name": "cleanup.policy", "value": "delete"}]
    topic = {"name": at.name, "num_partitions": 2, "replication_factor": 1, "configs": configs}
    return {"topics": [topic], "timeout_ms": _TIMEOUT_MS}


def delete_topics(at: Situation) -> dict[str, Any]:
    return {"topic_names": [at.topic], "topics": [{"name": at.topic}], "timeout_ms": _TIMEOUT_MS}


def delete_records(at: Situation) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "offset": 2}]
    return {"topics": [{"name": at.topic, "partitions": partitions}], "timeout_ms": _TIMEOUT_MS}


def init_producer_id(at: Situation) -> dict[str, Any]:
    return {"transactional_id": None, "transaction_timeout_ms": _TIMEOUT_MS, "producer_id": -1, "producer_epoch": -1}


def offset_for_leader_epoch(at: Situation) -> dict[str, Any]:
    partitions = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
    return {"replica_id": -1, "topics": [{"topic": at.topic, "partitions": partitions}]}


def add_partitions_to_txn(at: Situation) -> dict[str, Any]:
    asked = adding(at, at.producer())
    return {"transactions": [asked], **{f"v3_and_below_{name}": value for name, value in asked.items()}}


def add_offsets_to_txn(at: Situation) -> dict[str, Any]:
    return {**at.producer(), "group_id": at.name}


def end_txn(at: Situation) -> dict[str, Any]:
    return {**at.transaction(), "committed": True}


def write_txn_markers(at: Situation) -> dict[str, Any]:
    producer = at.transaction()
    del producer["transactional_id"]
    topics = [{"name": at.topic, "partition_indexes": [0]}]
    return {"markers": [{**producer, "transaction_result": False, "topics": topics, "coordinator_epoch": 0}]}


def txn_offset_commit(at: Situation) -> dict[str, Any]:
    producer = at.producer()
    at.wire.ask(25, 3, **producer, group_id=at.name)
    partitions = [{"partition_index": 0, "committed_offset": 2, "committed_metadata": ""}]
    topics = [{"name": at.topic, "partitions": partitions}]
    return {**producer, "group_id": at.name, "generation_id": -1, "member_id": "", "topics": topics}


def describe_configs(at: Situation) -> dict[str, Any]:
    resource = {"resource_type": _TOPIC_RESOURCE, "resource_name": at.topic, "configuration_keys": None}
    return {"resources": [resource], "include_synonyms": True, "include_documentation": True}


def alter_configs(at: Situation) -> dict[str, Any]:
    configs = [{"name": "max.message.bytes", "value": "2000000", "config_operation": 0}]
    return {"resources": [{"resource_type": _TOPIC_RESOURCE, "resource_name": at.topic, "configs": configs}]}


def describe_log_dirs(at: Situation) -> dict[str, Any]:
    return {"topics": [{"topic": at.topic, "partitions": [0, 1]}]}


def create_partitions(at: Situation) -> dict[str, Any]:
    return {"topics": [{"name": at.topic, "count": 3, "assignments": None}], "timeout_ms": _TIMEOUT_MS}


def delete_groups(at: Situation) -> dict[str, Any]:
    at.wire.ask(13, 2, **leave_group(at))
    return {"groups_names": [at.name]}


def elect_leaders(at: Situation) -> dict[str, Any]:
    partitions = [{"topic": at.topic, "partitions": [0]}]
    return {"election_type": 0, "topic_partitions": partitions, "timeout_ms": _TIMEOUT_MS}


def offset_delete(at: Situation) -> dict[str, Any]:
    committed = offset_commit(at)
    at.wire.ask(8, 8, **committed)
    # The one that committed: a second member would wait for it until the rebalance timeout is over.
    at.wire.ask(13, 2, group_id=at.name, member_id=committed["member_id"])
    return {"group_id": at.name, "topics": [{"name": at.topic, "partitions": [{"partition_index": 0}]}]}


def update_features(at: Situation) -> dict[str, Any]:
    level = {"feature": "transaction.version", "max_version_level": 2, "allow_downgrade": False, "upgrade_type": 1}
    return {"timeout_ms": _TIMEOUT_MS, "feature_updates": [level], "validate_only": True}


def alter_partition_reassignments(at: Situation) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "replicas": [1]}]
    topics = [{"name": at.topic, "partitions": partitions}]
    return {"timeout_ms": _TIMEOUT_MS, "allow_replication_factor_change": False, "topics": topics}


def describe_client_quotas(at: Situation) -> dict[str, Any]:
    at.wire.ask(49, 1, **alter_client_quotas(at))
    this_client = {"entity_type": "client-id", "match_type": 0, "match": at.name}
    return {"components": [this_client], "strict": True}


def alter_client_quotas(at: Situation) -> dict[str, Any]:
    entity = [{"entity_type": "client-id", "entity_name": at.name}]
    ops = [{"key": "producer_byte_rate", "value": 1e9, "remove": False}]
    return {"entries": [{"entity": entity, "ops": ops}], "validate_only": False}


def get_telemetry_subscriptions(at: Situation) -> dict[str, Any]:
    configs = [{"name": "metrics", "config_operation": 0, "value": "*"}]
    resources = [{"resource_type": 16, "resource_name": "all", "configs": configs}]
    at.wire.ask(44, 1, resources=resources, validate_only=False)
    return {"client_instance_id": uuid4()}


def push_telemetry(at: Situation) -> dict[str, Any]:
    told = at.wire.ask(71, 0, **get_telemetry_subscriptions(at))
    numbers = {"client_instance_id": told.client_instance_id, "subscription_id": told.subscription_id}
    return {**numbers, "terminating": False, "compression_type": 0, "metrics": b""}


def describe_quorum(at: Situation) -> dict[str, Any]:
    return {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


def list_config_resources(at: Situation) -> dict[str, Any]:
    return {"resource_types": [2]}


def describe_producers(at: Situation) -> dict[str, Any]:
    told = at.wire.ask(22, 4, **init_producer_id(at))
    records = batch(producer_id=told.producer_id, producer_epoch=told.producer_epoch, base_sequence=0)
    data = [{"index": number, "records": records} for number in range(2)]
    at.wire.ask(0, 9, acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=[{"name": at.topic, "partition_data": data}])
    return {"topics": [{"name": at.topic, "partition_indexes": [0, 1]}]}


def describe_transactions(at: Situation) -> dict[str, Any]:
    return {"transactional_ids": [at.transaction()["transactional_id"]]}


def list_transactions(at: Situation) -> dict[str, Any]:
    at.producer()
    return {"state_filters": [], "producer_id_filters": []}


def consumer_group_heartbeat(at: Situation) -> dict[str, Any]:
    subscription = {"subscribed_topic_names": [at.topic], "server_assignor": "range", "topic_partitions": []}
    return {"group_id": at.name, "member_id": "one", "member_epoch": 0, "rebalance_timeout_ms": 1000, **subscription}


def consumer_group_describe(at: Situation) -> dict[str, Any]:
    at.wire.ask(68, 1, **consumer_group_heartbeat(at))
    return {"group_ids": [at.name], "include_authorized_operations": False}


def describe_topic_partitions(at: Situation) -> dict[str, Any]:
    return {"topics": [{"name": at.topic}], "response_partition_limit": 100}


CASES: dict[int, Callable[[Situation], dict[str, Any]]] = {
    0: produce,
    1: fetch,
    2: list_offsets,
    3: metadata,
    8: offset_commit,
    9: offset_fetch,
    10: find_coordinator,
    11: join_group,
    12: heartbeat,
    13: leave_group,
    14: sync_group,
    15: describe_groups,
    16: list_groups,
    17: sasl_handshake,
    18: api_versions,
    19: create_topics,
    20: delete_topics,
    21: delete_records,
    22: init_producer_id,
    23: offset_for_leader_epoch,
    24: add_partitions_to_txn,
    25: add_offsets_to_txn,
    26: end_txn,
    27: write_txn_markers,
    28: txn_offset_commit,
    32: describe_configs,
    33: alter_configs,
    35: describe_log_dirs,
    36: sasl_authenticate,
    37: create_partitions,
    42: delete_groups,
    43: elect_leaders,
    44: alter_configs,
    45: alter_partition_reassignments,
    47: offset_delete,
    48: describe_client_quotas,
    49: alter_client_quotas,
    55: describe_quorum,
    57: update_features,
    61: describe_producers,
    65: describe_transactions,
    66: list_transactions,
    68: consumer_group_heartbeat,
    71: get_telemetry_subscriptions,
    72: push_telemetry,
    69: consumer_group_describe,
    74: list_config_resources,
    75: describe_topic_partitions,
}


def request_of(at: Situation, api_key: int) -> dict[str, Any]:
    """The fields of a valid request: those of its case, or none, where the defaults of all fields make one."""
    case = CASES.get(api_key)
    return {} if case is None else case(at)


# APIs that are asked at a listener of SASL's, on a new connection, or of brokers of which the first replica of the
# topic's first partition does not lead it; all others of a single broker by its plain listener.
SASL, STRAYED = "a listener with SASL", "a leader that is not the preferred one"
PLACES = {17: SASL, 36: SASL, 43: STRAYED}
