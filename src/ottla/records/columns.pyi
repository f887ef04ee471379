from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ottla.records.append import SealedBatch

class Chunk:
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

def chunks(data: Any) -> Iterator[Chunk]: ...

class StickyPartition:
    def __init__(self, partition: int = 0) -> None: ...
    @property
    def partition(self) -> int: ...
    @property
    def sent_bytes(self) -> int: ...

class TableEncoder:
    def __iter__(self) -> TableEncoder: ...
    def __next__(self) -> list[SealedBatch]: ...

def encode_stream(
    data: Any,
    *,
    topic: str,
    partition_count: int,
    value: str | Callable[[Chunk], Any] | None,
    key: str | Callable[[Chunk], Any] | None = None,
    headers: str | None = None,
    partition: str | None = None,
    timestamp: str | None = None,
    batch_size: int = 16384,
    max_request_size: int = 1048576,
    compression: str = "none",
    compression_level: int | None = None,
    ignore_keys: bool = False,
    sticky: StickyPartition | None = None,
    clock_ms: Callable[[], int] | None = None,
) -> TableEncoder: ...

class DecodedColumns:
    def __len__(self) -> int: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def tail_bytes(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

def decode_columns(
    buffer: bytes | bytearray | memoryview,
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    verify_crc: bool = True,
    committed: Sequence[tuple[int, int]] | None = None,
    decompressed_bytes_max: int = 1 << 28,
) -> DecodedColumns: ...
