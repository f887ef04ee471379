from collections.abc import Callable
from typing import Any

from ottla.records.arrow_data import Chunk
from ottla.records.buffers import BufferPool
from ottla.records.delivery import SealedBatch
from ottla.records.key_column import KeyColumn
from ottla.records.partitions import PartitionLoad

class StickyPartition:
    load: PartitionLoad | None
    def __init__(self, partition: int = 0, seed: int = 0) -> None: ...
    @property
    def partition(self) -> int: ...
    @property
    def sent_bytes(self) -> int: ...

class TableEncoder:
    @property
    def rows_read(self) -> int: ...
    def __iter__(self) -> TableEncoder: ...
    def __next__(self) -> list[SealedBatch]: ...

def encode_stream(
    data: Any,
    *,
    topic: str,
    partition_count: int,
    value: str | Callable[[Chunk], Any] | None,
    key: str | Callable[[Chunk], Any] | None = None,
    key_texts: Callable[[Chunk, str, int], Any] | None = None,
    headers: str | None = None,
    partition: str | None = None,
    timestamp: str | None = None,
    batch_size: int = 16384,
    max_request_size: int = 1048576,
    buffer_memory: int = 33554432,
    compression: str = "none",
    compression_level: int | None = None,
    lend: Callable[[SealedBatch], bool] | None = None,
    pool: BufferPool | None = None,
    partitioner: str = "default",
    place: Callable[[KeyColumn], Any] | None = None,
    placer: str = "",
    ignore_keys: bool = False,
    sticky: StickyPartition | None = None,
    clock_ms: Callable[[], int] | None = None,
) -> TableEncoder: ...
