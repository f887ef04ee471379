"""The first `send` to each of 1,000 topics of 6 partitions: ottla against confluent-kafka, in turn, on a fresh client.

The broker is an embedded one. The time is measured until every record is acknowledged. The target is confluent-kafka's
time: the median of the ratios of all rounds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from statistics import median
from typing import Any

import ottla
from benchmarks.topics_worker import CLIENTS, WARM_UP_TOPIC, topic_name

TOPICS = 1_000
PARTITIONS = 6
OF_CONFLUENT = 1.0
_TIMEOUT_S = 600


def first_sends(arguments: argparse.Namespace) -> dict[str, Any]:
    """Median seconds of both clients, and the target."""
    with ottla.Cluster(brokers=1) as cluster:
        bootstrap = cluster.bootstrap_servers
        with ottla.Admin(bootstrap) as admin:
            names = [WARM_UP_TOPIC, *(topic_name(number) for number in range(TOPICS))]
            admin.create_topics(names, partitions=PARTITIONS)
            rounds = [{client: _measure(client, bootstrap) for client in CLIENTS} for _ in range(arguments.repeat)]
            stored = sum(sum(admin.end_offsets(topic_name(number)).values()) for number in range(TOPICS))
    sent = TOPICS * len(CLIENTS) * arguments.repeat
    assert stored == sent, f"sent {sent} records, {stored} are stored"
    found = {
        client: {figure: round(median(each[client][figure] for each in rounds), 3) for figure in ("send_s", "all_s")}
        for client in CLIENTS
    }
    ratio = round(median(each["ottla"]["all_s"] / each["confluent"]["all_s"] for each in rounds), 2)
    target = {"found": ratio, "must_be_below": OF_CONFLUENT, "ok": ratio <= OF_CONFLUENT}
    for client, figures in found.items():
        print(f"{client:12}" + "".join(f"   {name}={value:,}" for name, value in figures.items()))
    print(f"{'met' if target['ok'] else 'MISSED':12} of confluent's time: {ratio}")
    return {"rounds": arguments.repeat, "clients": found, "of confluent's time": target}


def _measure(client: str, bootstrap: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.topics_worker", client, bootstrap, str(TOPICS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise SystemExit(f"{client} failed:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures
