"""A cluster that `ottla serve --control` runs, seen from inside: brokers, faults, logs, requests, live.

All of it is asked of the cluster's control address (`remote/api.py`), and so are kills and faults. The kinds of faults,
and their fields, come from there, too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.client.config_admin import alter_request
from ottla.connection.request import ANY_NODE
from ottla.console.client_diagnosis import diagnosis
from ottla.console.kafka import Kafka
from ottla.errors import OttlaError, UserMistake
from ottla.protocol.error_codes import kafka_error
from ottla.remote.client import RemoteCluster

VERBS = ("kill", "power-off", "pause", "resume", "stop", "start")
_LIVE_S = 0.1
_METRICS_S = 1.0
# What is slow to ask for is asked for once a second, or less often, so that it takes at most this share of the time.
_LOOKING_SHARE = 0.03
_REQUESTS = "kafka.network:type=RequestMetrics,name="
# How the names of a request's stages end: RequestQueueTimeMs, LocalTimeMs ... TotalTimeMs.
_STAGE = "TimeMs"
# The type of a subscription to clients' metrics, in IncrementalAlterConfigs.
_CLIENT_METRICS = 16
_SUBSCRIPTION = "ottla-console"
INTERVAL_MS_MAX = 3_600_000

Line = dict[str, Any]


class Served:
    """The served cluster at a control address."""

    def __init__(self, control: RemoteCluster) -> None:
        self._control = control

    def bootstrap_servers(self) -> str:
        """Where its brokers are, on its first listener."""
        listeners: dict[str, str] = self._control.get("cluster")["bootstrap_servers"]
        return next(iter(listeners.values()))

    def overview(self) -> dict[str, Any]:
        """Brokers with their states, faults in force, and all kinds of faults with their fields."""
        told = self._control.get("faults")
        return {**self._control.get("brokers"), "kinds": told["kinds"]}

    def logs(self, topic: str) -> dict[str, Any]:
        """Every replica of a topic, as its broker knows it, with what is in the page cache."""
        return self._control.get("topics", topic, "logs")

    def requests(self) -> dict[str, Any]:
        """By request of Kafka's: how many there were and how long they took, over all brokers."""
        found: dict[str, dict[str, Any]] = {}
        for broker in self._control.get("metrics")["brokers"]:
            for bean, attributes in broker["metrics"].items():
                if bean.startswith(_REQUESTS):
                    name, _, request = bean.removeprefix(_REQUESTS).partition(",request=")
                    _add(found.setdefault(request, {"request": request, "count": 0, "stages": {}}), name, attributes)
        return {"requests": [found[name] for name in sorted(found)]}

    def clients(self, kafka: Kafka) -> dict[str, Any]:
        """What clients have pushed of their own metrics, and what limits the producers among them."""
        clients: list[dict[str, Any]] = self._control.get("client-metrics")["clients"]
        partitions = _partition_counts(kafka) if clients else {}
        for each in clients:
            each["diagnosis"] = diagnosis(each["metrics"], lambda topic: partitions.get(topic, 1))
        return {"clients": clients}

    def subscribe(self, kafka: Kafka, interval_ms: int) -> dict[str, Any]:
        """Have all clients push their metrics so often (KIP-714); 0: no longer. KafkaError where brokers refuse."""
        wanted = {"metrics": "*", "interval.ms": interval_ms} if interval_ms else {"metrics": None, "interval.ms": None}
        answer = kafka.driver.ask(alter_request(_CLIENT_METRICS, _SUBSCRIPTION, wanted), ANY_NODE).message
        for told in answer.responses:
            if told.error_code:
                raise kafka_error(told.error_code, told.error_message or "")
        return {"interval_ms": interval_ms}

    def act(self, broker: str, verb: str) -> dict[str, Any]:
        """Kill, pause ... a broker, or `all`."""
        if verb not in VERBS:
            raise UserMistake(f"a broker can be told {', '.join(VERBS)}, not {verb:.20}")
        return self._control.post("brokers", broker, verb)

    def add_fault(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Put a fault in force; its fields are text, as in `ottla cluster fault`."""
        from ottla.faults.fault import fault_from_texts

        texts = {name: str(text) for name, text in given.items() if name != "kind" and str(text).strip()}
        return self._control.post("faults", **fault_from_texts(str(given.get("kind", "")), texts).to_dict())

    def heal(self, fault: str) -> dict[str, Any]:
        """End a fault, or `all`."""
        return self._control.delete("faults", *([] if fault == "all" else [fault]))

    def live(self, topic: str | None) -> Iterator[Line]:
        """What has changed, looked at ten times a second, without an end.

        Lines of {"logs"} of a topic, or of {"brokers"}, {"faults"}, {"connections"} and, once a second, {"requests"}
        and {"producers"}; and {"error"}, a sentence or None.
        """
        before: dict[str, Any] = {}
        metrics_due = 0.0
        resident: dict[str, int | None] = {}
        while True:
            began = time.monotonic()
            now: dict[str, Any] = {"error": None}
            try:
                is_due = began >= metrics_due
                if is_due:
                    metrics_due = began + _METRICS_S
                if topic:
                    now["logs"] = self._logs_now(topic, resident, is_due=is_due)
                else:
                    now.update(self._control.get("brokers", connections=True))
                    if is_due:
                        now["requests"] = self.requests()["requests"]
                        now.update(self._control.get("producers"))
                if is_due:
                    metrics_due = max(metrics_due, began + (time.monotonic() - began) / _LOOKING_SHARE)
            except OttlaError as error:
                now["error"] = str(error)
            changed = {name: value for name, value in now.items() if before.get(name) != value}
            before.update(now)
            # Sent even when it is empty: so a browser that has closed the connection is noticed.
            yield changed
            time.sleep(max(0.0, _LIVE_S - (time.monotonic() - began)))

    def _logs_now(self, topic: str, resident: dict[str, int | None], *, is_due: bool) -> Any:
        """A topic's logs; what is in the page cache is looked at once a second, for that takes the kernel a while."""
        try:
            told = self._control.get("topics", topic, "logs", resident="true" if is_due else "false")
        except UserMistake as error:
            # It was deleted, or never there; the rest goes on.
            return {"topic": topic, "error": str(error), "partitions": [], "logs": []}
        for each in told["logs"]:
            for file in each["files"]:
                place = f"{each['broker']}/{file['path']}"
                if is_due:
                    resident[place] = file["resident_bytes"]
                file["resident_bytes"] = resident.get(place)
        return told


def _partition_counts(kafka: Kafka) -> dict[str, int]:
    """{topic: number of its partitions}, empty where no broker tells."""
    try:
        return {each.name: len(each.partitions) for each in kafka.metadata().topics}
    except OttlaError:
        return {}


def _add(row: dict[str, Any], name: str, attributes: Mapping[str, float]) -> None:
    if name == "RequestsPerSec":
        row["count"] += int(attributes["Count"])
    elif name.endswith(_STAGE):
        known = row["stages"].get(name)
        count = attributes["Count"]
        if known is None:
            row["stages"][name] = dict(attributes)
            return
        total = known["Count"] + count
        known["Mean"] = (known["Mean"] * known["Count"] + attributes["Mean"] * count) / max(total, 1)
        known["Count"] = total
        for attribute in attributes.keys() - {"Count", "Mean"}:
            # Percentiles of several brokers have no sum; the largest bounds them all.
            known[attribute] = max(known.get(attribute, 0.0), attributes[attribute])
