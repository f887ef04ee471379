"""Routes about topics, partitions and coordinators: making and deleting, who leads, moving and awaiting leaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.cluster.cluster import Cluster
from ottla.errors import OttlaError
from ottla.faults.fields import BROKER, TEXT, TOPIC, YES_OR_NO, Field, May, one_of, whole
from ottla.remote.faults import too_late
from ottla.remote.route import DEFAULT_WAIT_S, TIMEOUT, Asked, Refusal, Route

LEADER, ISR = "leader", "isr"
_NOBODY = -1


def _are_configs(value: Any) -> bool:
    return isinstance(value, dict) and all(type(each) in (str, int, float) for each in value.values())


_PARTITIONS = Field("partitions", whole(1), "how many partitions; 1 unless given")
_REPLICAS = Field(
    "replication_factor", whole(1), "how many replicas; unless given 3, or fewer if there are fewer brokers"
)
_CONFIGS = Field("configs", May("an object of texts and numbers", _are_configs), "topic settings by Kafka's names")
_GROUP = Field("group", TEXT, "the id of a consumer group")
_TRANSACTIONAL_ID = Field("transactional_id", TEXT, "the transactional id of a producer")
_AWAIT = Field("await", one_of((LEADER, ISR)), "answer when there is a leader, or when enough replicas are in the ISR")
_OTHER_THAN = Field("other_than", whole(0), "with await=leader: wait for a leader that is not this broker")
_SIZE = Field("size", whole(1), "with await=isr: how many replicas; all unless given")
_UNCLEAN = Field("unclean", YES_OR_NO, "whether a replica that is not in the ISR may lead if no other can")
_RESIDENT = Field("resident", YES_OR_NO, "whether the page cache is looked at; true unless given")
_NEW_LEADER = BROKER._replace(says="the new leader; any other replica in the ISR unless given")


def described_partition(partition: int, found: Mapping[str, Any]) -> dict[str, Any]:
    """A partition as all answers have it; its leader is None where no replica can lead."""
    return {"partition": partition, **found, "leader": None if found["leader"] == _NOBODY else found["leader"]}


def _create(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    given = dict(asked.given)
    name = given.pop("topic")
    cluster.create_topic(name, **given)
    partitions = cluster.topics().get(name, [])
    return {"topic": name, "partitions": [described_partition(*each) for each in enumerate(partitions)]}


def _show_topic(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    name = asked.path["topic"]
    return {
        "topic": name,
        "partitions": [described_partition(*each) for each in enumerate(cluster.replicas(name))],
    }


def _show_logs(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    logs = cluster.logs(asked.path["topic"], resident=asked.given.get("resident", True))
    return {**_show_topic(cluster, asked), "logs": logs}


def _delete(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    cluster.delete_topic(asked.path["topic"])
    return {"deleted": asked.path["topic"]}


def _place(asked: Asked) -> tuple[str, int]:
    return asked.path["topic"], asked.number("partition")


def _answer(cluster: Cluster, topic: str, partition: int) -> dict[str, Any]:
    return {"topic": topic, **described_partition(partition, cluster.partition(topic, partition))}


def _show_partition(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    topic, partition = _place(asked)
    given = asked.given
    what = given.get("await")
    for name, of in (("other_than", LEADER), ("size", ISR)):
        if name in given and what != of:
            raise Refusal(400, f"{name} goes with await={of}.")
    timeout = given.get("timeout", DEFAULT_WAIT_S)
    try:
        if what == LEADER:
            cluster.await_leader(topic, partition, other_than=given.get("other_than"), timeout=timeout)
        elif what == ISR:
            cluster.await_isr(topic, partition, given.get("size"), timeout=timeout)
    except OttlaError as error:
        raise too_late(error, cluster) from None
    return _answer(cluster, topic, partition)


def _move_leader(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    topic, partition = _place(asked)
    # An unknown one is told in another way than one that nobody else can lead.
    cluster.partition(topic, partition)
    cluster.move_leader(topic, partition, asked.given.get("broker_id"))
    return _answer(cluster, topic, partition)


def _elect_leader(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    topic, partition = _place(asked)
    cluster.elect_leader(topic, partition, unclean=asked.given.get("unclean", False))
    return _answer(cluster, topic, partition)


def _show_coordinator(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    broker_id = cluster.coordinator(**asked.given)
    return {**asked.given, "coordinator": None if broker_id == _NOBODY else broker_id}


def _move_coordinator(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    return {**asked.given, "coordinator": cluster.move_coordinator(**asked.given)}


ROUTES = (
    Route(
        "POST",
        "/v1/topics",
        _create,
        "create a topic",
        wanted=(TOPIC,),
        optional=(_PARTITIONS, _REPLICAS, _CONFIGS),
        status=201,
    ),
    Route("GET", "/v1/topics/{topic}", _show_topic, "the state of each replica of a topic, all at one moment"),
    Route(
        "GET",
        "/v1/topics/{topic}/logs",
        _show_logs,
        "the same, and of each replica its files, what of them is synced and in the page cache, and its producers",
        optional=(_RESIDENT,),
    ),
    Route("DELETE", "/v1/topics/{topic}", _delete, "delete a topic with all its records"),
    Route(
        "GET",
        "/v1/partitions/{topic}/{partition}",
        _show_partition,
        "the leader of a partition, and its ISR",
        optional=(_AWAIT, _OTHER_THAN, _SIZE, TIMEOUT),
    ),
    Route(
        "POST",
        "/v1/partitions/{topic}/{partition}/move-leader",
        _move_leader,
        "let another replica of the ISR lead",
        optional=(_NEW_LEADER,),
    ),
    Route(
        "POST",
        "/v1/partitions/{topic}/{partition}/elect-leader",
        _elect_leader,
        "let the preferred leader (the first replica) lead",
        optional=(_UNCLEAN,),
    ),
    Route(
        "GET",
        "/v1/coordinator",
        _show_coordinator,
        "the coordinator of a group, or of a transactional id",
        optional=(_GROUP, _TRANSACTIONAL_ID),
    ),
    Route(
        "POST",
        "/v1/coordinator/move",
        _move_coordinator,
        "let another broker be the coordinator",
        optional=(_GROUP, _TRANSACTIONAL_ID),
    ),
)
