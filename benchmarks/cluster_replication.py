"""What a replicated record costs three embedded brokers beside many partitions that nobody writes to.

One record at a time with acks=all goes to one partition of a topic with three replicas. The processor time of the
brokers' process is taken over all of them; wall time would tell of the machine, and of who else uses it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import ottla
from benchmarks.producer_speed import log_folder
from benchmarks.wire import Wire, create_topics, request
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.plain import Record, encode_batch

BESIDE = (100, 1000, 4000)
RATIO_MUST = 2
_RECORDS = 2000
_TOPIC = "replicated"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def replication(arguments: argparse.Namespace) -> dict[str, Any]:
    """CPU per replicated record at 100, 1,000 and 4,000 partitions, and that of 4,000 over that of 100."""
    rounds = [[_cpu_us_per_record(partitions) for partitions in BESIDE] for _ in range(arguments.repeat)]
    figures: dict[str, Any] = {
        f"{partitions}_partitions": {"cpu_us_per_record": round(median(each[number] for each in rounds))}
        for number, partitions in enumerate(BESIDE)
    }
    ratio = median(each[-1] / each[0] for each in rounds)
    figures["most_of_least"] = {"ratio": round(ratio, 2), "must": RATIO_MUST, "ok": ratio <= RATIO_MUST}
    return figures


def _cpu_us_per_record(partitions: int) -> float:
    batch = encode_batch([Record(0, int(time.time() * 1000), None, b"x" * 100)])
    data = [PartitionProduceData(index=0, records=batch)]
    message = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=_TOPIC, partition_data=data)]
    )
    content = request(message, 9)
    with tempfile.TemporaryDirectory(dir=log_folder()) as data_dir, ottla.Cluster(data_dir=data_dir) as cluster:
        addresses = cluster.bootstrap_servers.split(",")
        create_topics(addresses[0], [_TOPIC], partitions, 3)
        with Wire(addresses[0]) as wire:
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=_TOPIC)])
            answer = wire.call(asked, 9)
        leader_id = answer.topics[0].partitions[0].leader_id
        leader = next(broker for broker in answer.brokers if broker.node_id == leader_id)
        with Wire(f"{leader.host}:{leader.port}") as wire:
            before_s = 0.0
            for number in range(_RECORDS * 5 // 4):
                if number == _RECORDS // 4:
                    before_s = _cpu_s(cluster.pid)
                wire.send(content)
                wire.frame()
            took_s = _cpu_s(cluster.pid) - before_s
        with ottla.Admin(cluster.bootstrap_servers) as admin:
            written = admin.end_offsets(_TOPIC)[0]
    assert written == _RECORDS * 5 // 4, written
    return took_s / _RECORDS * 1e6


def _cpu_s(pid: int) -> float:
    """The processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
