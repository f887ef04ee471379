"""Spark's own Kafka source beside ours, over the same topics under the same options: the same rows, or both refuse.

In a process of its own, as the connector must be on the class path when Spark's Java starts. Batches only: the
connector that is there to be had streams with its own release of Spark alone.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from typing import Any

import pytest
from tests.spark.sink_driver import QUICK_START

import ottla
from ottla.cluster.cluster import Cluster

from ..needs import lacking

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

_PATIENCE_S = 400
_PROGRAM = """
import json
import sys

from ottla.errors import UserMistake
from ottla.spark.session import local_session

servers, settings, cases = sys.argv[1:]
try:
    spark = local_session("ottla-tests", settings=json.loads(settings))
except UserMistake as reason:
    print(json.dumps({"missing": str(reason)}))
    sys.exit()

def rows(records):
    headers = ["headers"] if "headers" in records.columns else []
    names = ["topic", "partition", "offset", "key", "value", "timestampType", "unix_micros(timestamp) time", *headers]
    found = records.selectExpr(*names).collect()
    return sorted(repr(tuple(row)) for row in found)

def read(form, options):
    try:
        return rows(spark.read.format(form).options(**{"kafka.bootstrap.servers": servers}, **options).load())
    except Exception as refusal:
        return f"refused: {type(refusal).__name__}: {refusal}"

forms = ("kafka", "ottla")
batches = {name: [read(form, options) for form in forms] for name, options in json.loads(cases).items()}
print(json.dumps(batches))
spark.stop()
"""
# Retention takes what is older than a week.
_FIRST_MS = int(time.time() * 1000) - 86_400_000
_REFUSED = "refused: "


def each(value: int, topic: str = "plain") -> str:
    return json.dumps({topic: dict.fromkeys("012", value)})


CASES: dict[str, dict[str, str]] = {
    "all": {"subscribe": "plain"},
    "several": {"subscribe": "plain, trimmed,empty"},
    "pattern": {"subscribePattern": "(pl|tr).*"},
    "all topics": {"subscribePattern": ".*"},
    "part of a name": {"subscribePattern": "plai"},
    "assigned": {"assign": '{"plain": [2, 0], "trimmed": [0]}'},
    "headers": {"subscribe": "plain", "includeHeaders": "true"},
    "offsets": {
        "subscribe": "plain",
        "startingOffsets": '{"plain": {"0": 3, "1": -2, "2": 10}}',
        "endingOffsets": '{"plain": {"0": 5, "1": -1, "2": 10}}',
    },
    "offsets of some": {"subscribe": "plain", "startingOffsets": '{"plain": {"0": 3}}'},
    "offsets beyond": {"subscribe": "plain", "startingOffsets": each(99)},
    "latest": {"subscribe": "plain", "startingOffsets": "latest"},
    "ends at earliest": {"subscribe": "plain", "endingOffsets": "earliest"},
    "time": {
        "subscribe": "plain",
        "startingTimestamp": str(_FIRST_MS + 6),
        "endingTimestamp": str(_FIRST_MS + 20),
    },
    "no time that late": {"subscribe": "plain", "startingTimestamp": str(_FIRST_MS + 10**7)},
    "no time that late, latest": {
        "subscribe": "plain",
        "startingTimestamp": str(_FIRST_MS + 28),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "ends late": {"subscribe": "plain", "endingTimestamp": str(_FIRST_MS + 10**7)},
    "times": {
        "subscribe": "plain",
        "startingOffsetsByTimestamp": each(_FIRST_MS + 7),
        "endingOffsetsByTimestamp": each(_FIRST_MS + 21),
    },
    "a time before times before offsets": {
        "subscribe": "plain",
        "startingTimestamp": str(_FIRST_MS + 9),
        "startingOffsetsByTimestamp": each(_FIRST_MS + 20),
        "startingOffsets": each(9),
    },
    "gone, strictly": {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": 1}}'},
    "gone": {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": 1}}', "failOnDataLoss": "false"},
    "committed": {"subscribe": "transactions", "kafka.isolation.level": "read_committed"},
    "uncommitted": {"subscribe": "transactions"},
    "pieces": {"subscribe": "plain", "minPartitions": "11"},
    "small pieces": {"subscribe": "plain", "maxRecordsPerPartition": "3"},
    "empty": {"subscribe": "empty"},
    "unknown": {"subscribe": "unknown"},
    "no such partition": {"assign": '{"plain": [3]}'},
    "two ways": {"subscribe": "plain", "assign": '{"plain": [0]}'},
    "group": {"subscribe": "plain", "kafka.group.id": "readers", "groupIdPrefix": "x"},
    "reset": {"subscribe": "plain", "kafka.auto.offset.reset": "earliest"},
    "end before start": {"subscribe": "plain", "startingOffsets": each(5), "endingOffsets": each(3)},
}
# What both refuse, each for this reason and in these words; an error of another kind is none of these.
REFUSED = {
    "offsets of some": ("don't match what are assigned", "it must name exactly those"),
    "offsets beyond": ("Beginning offset 99 is after the ending offset 10", "which holds offsets 0 to 10"),
    "latest": ("starting offset can't be latest for batch queries", "The option startingOffsets is 'latest'"),
    "ends at earliest": ("ending offset can't be earliest for batch queries", "The option endingOffsets is 'earliest'"),
    "no time that late": ("No offset matched from request", "has none that young"),
    "gone, strictly": ("Some data may have been lost", "which holds offsets 12 to 30"),
    "unknown": ("UnknownTopicOrPartitionException", "names topic 'unknown', which does not exist"),
    "two ways": ("Only one of the following options can be specified", "not with subscribe, assign together"),
    "reset": ("Kafka option 'auto.offset.reset' is not supported", "The option kafka.auto.offset.reset cannot be used"),
    "end before start": ("Beginning offset 5 is after the ending offset 3", "The start (5) lies beyond the end (3)"),
}
DIFFERENT = ("no such partition", "gone")


@pytest.fixture(scope="module")
def told(spark_connector: list[str]) -> dict[str, Any]:
    """What the program says."""
    with Cluster() as cluster:
        fill(cluster)
        settings = QUICK_START | {"spark.jars": ",".join(spark_connector)}
        arguments = [cluster.bootstrap_servers, json.dumps(settings), json.dumps(CASES)]
        command = [sys.executable, "-c", _PROGRAM, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "missing" in found:
        lacking("spark", found["missing"])
    return found


def fill(cluster: Cluster) -> None:
    for topic, partitions in {"plain": 3, "trimmed": 1, "empty": 2, "transactions": 1}.items():
        cluster.create_topic(topic, partitions=partitions)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in range(30):
            headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("b", None), ("a", b"2")]
            producer.send(
                "plain",
                None if number % 5 == 0 else f"v{number}",
                None if number % 4 == 0 else f"k{number}",
                headers=headers if number % 3 == 0 else None,
                partition=number % 3,
                timestamp_ms=_FIRST_MS + number,
            )
            producer.send("trimmed", f"v{number}", timestamp_ms=_FIRST_MS + number)
    with ottla.Admin(cluster.bootstrap_servers) as admin:
        admin.delete_records("trimmed", {0: 12})
    with ottla.Producer(cluster.bootstrap_servers, transactional_id="side-by-side") as producer:
        for counts in (True, False, True, False):
            producer.begin_transaction()
            for number in range(5):
                producer.send("transactions", f"v{number}")
            producer.flush()
            producer.commit_transaction() if counts else producer.abort_transaction()


@pytest.mark.parametrize("case", [name for name in CASES if name not in REFUSED and name not in DIFFERENT])
def test_a_batch_is_what_sparks_own_source_makes_of_these_options(told: dict[str, Any], case: str) -> None:
    theirs, ours = told[case]
    assert isinstance(theirs, list)
    assert ours == theirs


@pytest.mark.parametrize("case", REFUSED)
def test_what_sparks_own_source_refuses_is_refused_for_the_same_reason(told: dict[str, Any], case: str) -> None:
    for said, words in zip(told[case], REFUSED[case], strict=True):
        assert str(said).startswith(_REFUSED)
        assert words in said
    assert re.search(r"ottla\.errors\.(UserMistake|ConfigError): ", told[case][1])


def test_a_partition_that_is_not_there_is_refused_where_sparks_own_source_reads_nothing(told: dict[str, Any]) -> None:
    theirs, ours = told["no such partition"]
    assert theirs == []
    assert "names partition 3 of plain, which has 3 partitions" in ours


def test_what_is_left_of_lost_records_is_read(told: dict[str, Any]) -> None:
    """The connector that is there to be had fails where it logs the loss, for Spark's logging is a newer one."""
    theirs, ours = told["gone"]
    assert "NoClassDefFoundError: org/apache/spark/internal/LogKeys" in theirs
    assert len(ours) == 18


def test_most_cases_are_rows(told: dict[str, Any]) -> None:
    assert sum(isinstance(theirs, list) and theirs != [] for theirs, _ in told.values()) >= 15
