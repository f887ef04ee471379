"""Routes about brokers and the cluster as a whole: their state, and killing, pausing, stopping and starting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ottla.cluster.cluster import Cluster
from ottla.errors import ConfigError
from ottla.faults.fields import SEED, YES_OR_NO, Field, May
from ottla.remote.faults import described_fault
from ottla.remote.route import Asked, Refusal, Route
from ottla.remote.topics import described_partition

ALL = "all"

_ADVANCE = Field(
    "advance_s",
    May("a number of seconds from 0 to 1000000000", lambda value: type(value) in (int, float) and 0 <= value < 10**9),
    "how far the clock of the brokers and the controller is set ahead, in seconds",
)

_CONNECTIONS = Field("connections", YES_OR_NO, "whether connections are told, too; false unless given")


def _show(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    from ottla import __version__

    return {
        "ottla": __version__,
        "bootstrap_servers": {name: cluster.bootstrap_servers_of(name) for name in cluster.listeners},
        **_states(cluster),
        "topics": [
            {"topic": name, "partitions": [described_partition(*each) for each in enumerate(partitions)]}
            for name, partitions in cluster.topics().items()
        ],
        "faults": [described_fault(fault) for fault in cluster.faults.in_force()],
    }


def _states(cluster: Cluster) -> dict[str, Any]:
    """The brokers with their states and where each listens."""
    addresses = {name: cluster.bootstrap_servers_of(name).split(",") for name in cluster.listeners}
    return {
        "brokers": [
            {
                "id": broker_id,
                "state": state,
                "addresses": {name: of_brokers[broker_id - 1] for name, of_brokers in addresses.items()},
            }
            for broker_id, state in cluster.brokers().items()
        ]
    }


def _show_brokers(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    shown = {**_states(cluster), "faults": [described_fault(fault) for fault in cluster.faults.in_force()]}
    return {**shown, **_connections(cluster, asked)} if asked.given.get("connections", False) else shown


def _on_broker(verb: Callable[[Cluster, int | None, Asked], None]) -> Callable[[Cluster, Asked], dict[str, Any]]:
    """Do this to the broker that the path names, or to all, and answer how all brokers are now."""

    def does(cluster: Cluster, asked: Asked) -> dict[str, Any]:
        broker_id = None if asked.path["broker"] == ALL else asked.number("broker", "its id, or all")
        try:
            verb(cluster, broker_id, asked)
        except ConfigError as error:
            # There is no such broker; all else was looked at before.
            raise Refusal(404, str(error)) from None
        return _states(cluster)

    return does


def _metrics(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    return {"brokers": [{"id": broker_id, "metrics": found} for broker_id, found in cluster.metrics().items()]}


def _client_metrics(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    clients = cluster.client_metrics()
    for metric in (each for client in clients for each in client["metrics"]):
        if type(metric["value"]) is float and not math.isfinite(metric["value"]):
            # An average of nothing is NaN, which JSON does not have.
            metric["value"] = None
    return {"clients": clients}


def _connections(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    return {"connections": cluster.connections()}


def _producers(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    return {"producers": cluster.producers()}


def _show_clock(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    clock = cluster.clock
    if clock is None:
        raise Refusal(409, "this cluster uses the clock of the machine, which cannot be set ahead.")
    return {"time_ms": clock.wall_ms()}


def _advance_clock(cluster: Cluster, asked: Asked) -> dict[str, Any]:
    shown = _show_clock(cluster, asked)
    if cluster.clock is not None:
        cluster.clock.advance(asked.given["advance_s"])
        shown = _show_clock(cluster, asked)
    return shown


ROUTES = (
    Route("GET", "/v1/cluster", _show, "brokers with their states and addresses, topics, faults in force"),
    Route(
        "GET",
        "/v1/brokers",
        _show_brokers,
        "brokers with their states and addresses, and faults in force",
        optional=(_CONNECTIONS,),
    ),
    Route(
        "POST",
        "/v1/brokers/{broker}/kill",
        _on_broker(lambda cluster, broker_id, _: cluster.kill(broker_id)),
        "end a broker as kill -9 does; what it had written is still there",
    ),
    Route(
        "POST",
        "/v1/brokers/{broker}/power-off",
        _on_broker(lambda cluster, broker_id, asked: cluster.power_off(broker_id, seed=asked.given.get("seed"))),
        "cut the power of a broker: what was not synced to its disk is lost",
        optional=(
            SEED._replace(says="with the same seed the same bytes of the same writes are lost; random unless given"),
        ),
    ),
    Route(
        "POST",
        "/v1/brokers/{broker}/pause",
        _on_broker(lambda cluster, broker_id, _: cluster.pause(broker_id)),
        "freeze a broker: connections stay open, and nothing is answered",
    ),
    Route(
        "POST",
        "/v1/brokers/{broker}/resume",
        _on_broker(lambda cluster, broker_id, _: cluster.resume(broker_id)),
        "let a paused broker go on",
    ),
    Route(
        "POST",
        "/v1/brokers/{broker}/stop",
        _on_broker(lambda cluster, broker_id, _: cluster.stop(broker_id)),
        "shut a broker down in order: its partitions get other leaders first",
    ),
    Route(
        "POST",
        "/v1/brokers/{broker}/start",
        _on_broker(lambda cluster, broker_id, _: cluster.start(broker_id)),
        "start a broker that is down",
    ),
    Route("GET", "/v1/metrics", _metrics, "the metrics of each running broker, under the names of Kafka's JMX beans"),
    Route("GET", "/v1/client-metrics", _client_metrics, "what clients have pushed of their own metrics (KIP-714)"),
    Route("GET", "/v1/connections", _connections, "the connections of clients, and what is under way on each"),
    Route(
        "GET", "/v1/producers", _producers, "what leaders remember of producers: sequences and the last five batches"
    ),
    Route("GET", "/v1/clock", _show_clock, "the time of the cluster's clock, in milliseconds since 1970"),
    Route("POST", "/v1/clock", _advance_clock, "set the cluster's clock ahead", wanted=(_ADVANCE,)),
)
