"""One record through the whole house, its value asserted at each station.

The same walk is taken twice: over real sockets and files, and by seed through the simulated network, clock and
disks. What differs is who drives the cores; what is asserted does not. The steps are the first table of docs/map.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.drawn import fixed_seeds

import ottla
from ottla.audit.history import PartitionHistory, Sent, Stored
from ottla.audit.ledgers.partition import add_audits, audit_partition
from ottla.audit.ledgers.verdict import judge
from ottla.ledger.checksum import record_crc
from ottla.ledger.reader import read_ledger
from ottla.ledger.schema import ACKED, EXACTLY_ONCE, SEQUENCE_HEADER, pack_sequence, unpack_sequence
from ottla.ledger.writer import LedgerWriter
from ottla.protocol.frames import decode_request, encode_request
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.batch_header import HEADER_BYTES, check_crc, read_header
from ottla.records.plain import Record, decode_batches, encode_batch, partition_for_key
from ottla.simulation.world import World

TOPIC = "flights"
PARTITIONS = 6
KEY, VALUE = b"N14228", b'{"origin": "EWR", "dest": "IAH", "dep_delay": 2}'
SEQUENCE = 0
TIMESTAMP_MS = 1_357_034_220_000
HEADERS = ((SEQUENCE_HEADER, pack_sequence(SEQUENCE)),)
PARTITION = partition_for_key(KEY, PARTITIONS)
FOR_EVER_MS = 100_000

SEEDS = fixed_seeds(20, soak=1_000)


class Ground(Protocol):
    """What the walk needs of either world."""

    def buffered_bytes(self) -> int: ...
    def send(self) -> Any: ...
    def flush(self) -> None: ...
    def logs(self) -> list[bytes]: ...
    def read(self) -> tuple[list[Record], int]: ...


class RealGround:
    """Sockets, threads, files."""

    def __init__(self, cluster: ottla.Cluster, folder: Path, producer: ottla.Producer) -> None:
        self._cluster = cluster
        self._folder = folder
        self._producer = producer

    def buffered_bytes(self) -> int:
        figures = self._producer.metrics()
        return int(figures["buffer-total-bytes"] - figures["buffer-available-bytes"])

    def send(self) -> Any:
        return self._producer.send(TOPIC, VALUE, KEY, headers=list(HEADERS), timestamp_ms=TIMESTAMP_MS)

    def flush(self) -> None:
        self._producer.flush(30)

    def logs(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted(self._folder.glob(f"broker-*/{TOPIC}-{PARTITION}/*.log"))]

    def read(self) -> tuple[list[Record], int]:
        table = ottla.read_table(self._cluster.bootstrap_servers, TOPIC)
        with ottla.Admin(self._cluster.bootstrap_servers) as admin:
            end = admin.end_offsets(TOPIC)[PARTITION]
        records = [
            Record(
                offset=row["offset"],
                timestamp_ms=int(row["timestamp"].timestamp() * 1000),
                key=row["key"],
                value=row["value"],
                headers=tuple((header["key"], header["value"]) for header in row["headers"]),
            )
            for row in table.to_pylist()
        ]
        return records, end


class SimulatedGround:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, through_bytes=seed % 20 == 0)
        self.world.create_topic(TOPIC, partitions=PARTITIONS)
        self.producer = self.world.producer(linger_ms=FOR_EVER_MS, delivery_timeout_ms=2 * FOR_EVER_MS)

    def buffered_bytes(self) -> int:
        return self.producer.appender.buffered_bytes

    def send(self) -> Any:
        return self.producer.send(TOPIC, VALUE, KEY, headers=list(HEADERS), timestamp_ms=TIMESTAMP_MS)

    def flush(self) -> None:
        self.producer.flush()

    def logs(self) -> list[bytes]:
        path = f"{TOPIC}-{PARTITION}/00000000000000000000.log"
        return [disk.open(path).read(0, 1 << 20) for disk in self.world.disks]

    def read(self) -> tuple[list[Record], int]:
        reader = self.world.reader()
        records = reader.read(TOPIC, PARTITION)
        end = reader.bounds[TOPIC, PARTITION][1]
        assert end is not None
        return records, end


@pytest.fixture
def real_ground(tmp_path: Path) -> Iterator[RealGround]:
    with ottla.Cluster(data_dir=tmp_path / "data") as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        with ottla.Producer(
            cluster.bootstrap_servers, linger_ms=FOR_EVER_MS, delivery_timeout_ms=2 * FOR_EVER_MS
        ) as producer:
            yield RealGround(cluster, tmp_path / "data", producer)


def test_one_record_walks_over_real_sockets(real_ground: RealGround, tmp_path: Path) -> None:
    walk(real_ground, tmp_path)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_record_walks_by_seed(seed: int, tmp_path: Path) -> None:
    walk(SimulatedGround(seed), tmp_path)


def test_the_request_on_the_wire_holds_the_batch_and_nothing_else() -> None:
    ground = SimulatedGround(seed=1)
    ground.send()
    ground.flush()

    (sent,) = [request for request in ground.producer.requests if isinstance(request.message, ProduceRequest)]
    frame = b"".join(encode_request(sent.correlation_id, "ottla", sent.message, sent.version))
    header, request = decode_request(memoryview(frame)[4:])

    assert header.correlation_id == sent.correlation_id
    assert request.acks == -1
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert (topic.name, partition.index) == (TOPIC, PARTITION)
    stored = ground.logs()[0]
    # The broker stamps base offset and leader epoch; from the magic byte on nothing is touched.
    assert bytes(partition.records)[16:] == stored[16:]


def walk(ground: Ground, folder: Path) -> None:
    """record -> accumulator -> batch -> broker log -> replicas -> high watermark -> ack -> ledger -> verdict."""
    # Record, serializer, partitioner: the key decides, before `send` returns.
    delivery = ground.send()
    assert delivery.partition == PARTITION

    # Accumulator: it waits in its partition's open batch for company, and nobody has been told anything.
    assert not delivery.done()
    assert ground.buffered_bytes() > 0

    # Sender, wire, broker, ack: the batch leaves because of the flush, and the acknowledgement brings its offset.
    ground.flush()
    metadata = delivery.result(10)
    assert (metadata.topic, metadata.partition, metadata.offset) == (TOPIC, PARTITION, 0)
    assert metadata.timestamp_ms == TIMESTAMP_MS
    assert ground.buffered_bytes() == 0

    # Broker log and replicas: three copies, the same to the byte, of the batch that plain Python would have made.
    leader, *followers = logs = ground.logs()
    assert len(logs) == 3
    assert followers == [leader, leader]
    assert_is_the_batch(leader)

    # High watermark: readers may see it.
    records, end = ground.read()
    assert end == 1
    assert records == [Record(0, TIMESTAMP_MS, KEY, VALUE, HEADERS)]

    # Ledger: what the producer was told, kept for the judge.
    path = folder / "ledger.parquet"
    with LedgerWriter(path, run_id="journey", guarantee=EXACTLY_ONCE, topic=TOPIC) as ledger:
        ledger.add(
            sequence=[SEQUENCE],
            partition=[delivery.partition],
            key_crc=[record_crc(KEY)],
            value_crc=[record_crc(VALUE)],
            outcome=[ACKED],
            offset=[metadata.offset],
        )

    # Audit and verdict: what was told against what is there.
    (told,) = read_ledger(path).to_pylist()
    history = PartitionHistory(
        TOPIC,
        PARTITION,
        Sent([told["sequence"]], [told["outcome"]], [told["key_crc"]], [told["value_crc"]], [told["offset"]]),
        stored_side(records),
        0,
        end,
    )
    verdict = judge(EXACTLY_ONCE, add_audits([audit_partition(history)]))
    assert verdict.passed
    assert (verdict.figures.sent, verdict.figures.acked, verdict.figures.stored) == (1, 1, 1)


def assert_is_the_batch(log: bytes) -> None:
    header = read_header(log)
    assert header.size_bytes == len(log)
    check_crc(log, header)
    assert header.producer_id >= 0
    assert (header.base_offset, header.base_sequence, header.record_count) == (0, 0, 1)
    oracle = encode_batch(
        [Record(0, TIMESTAMP_MS, KEY, VALUE, HEADERS)],
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=0,
        partition_leader_epoch=header.partition_leader_epoch,
    )
    assert log[HEADER_BYTES:] == oracle[HEADER_BYTES:]
    assert log == oracle
    ((_, records),) = decode_batches(log)
    assert [record.value for record in records] == [VALUE]


def stored_side(records: list[Record]) -> Stored:
    """What was read, as the judge takes it."""
    sequences = [unpack_sequence(dict(record.headers).get(SEQUENCE_HEADER)) for record in records]
    return Stored(
        [record.offset for record in records],
        [-1 if sequence is None else sequence for sequence in sequences],
        [record_crc(record.key) for record in records],
        [record_crc(record.value) for record in records],
        [record.timestamp_ms for record in records],
    )
