from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol

from ottla.records.delivery import Delivery, SealedBatch
from ottla.records.partitions import PartitionLoad

BytesLike = bytes | bytearray | memoryview

class Hooks(Protocol):
    def topic_missing(self, topic: str) -> None: ...
    def memory_wanted(self, nbytes: int) -> None: ...
    def wake(self) -> None: ...
    def wait(self, batch: SealedBatch, timeout_s: float | None) -> bool: ...
    def check_usable(self) -> None: ...

class Appender:
    sleeping: bool
    closed_error: BaseException | None
    turn_is_asked: bool
    def __init__(
        self,
        *,
        batch_size: int,
        max_request_size: int,
        buffer_memory: int,
        linger_us: int,
        hooks: Hooks,
        compression: str = "none",
        compression_level: int | None = None,
        partitioner: str = "default",
        places: bool = False,
        ignore_keys: bool = False,
        seed: int = 0,
        landing: deque[list[Any]] | None = None,
        clock_us: Callable[[], int] | None = None,
        clock_ms: Callable[[], int] | None = None,
    ) -> None: ...
    @property
    def buffered_bytes(self) -> int: ...
    @property
    def records_appended(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def max_request_size(self) -> int: ...
    @property
    def buffer_memory(self) -> int: ...
    @property
    def linger_us(self) -> int: ...
    @property
    def memory_waiters(self) -> int: ...
    def send(
        self,
        topic: str,
        value: BytesLike | str | None = None,
        key: BytesLike | str | None = None,
        *,
        headers: Sequence[tuple[str, BytesLike | str | None]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery: ...
    def send_async(
        self,
        topic: str,
        value: BytesLike | str | None = None,
        key: BytesLike | str | None = None,
        *,
        headers: Sequence[tuple[str, BytesLike | str | None]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Coroutine[Any, Any, Delivery]: ...
    def turn_is_due(self) -> bool: ...
    def waits_for_memory(self, waits: bool) -> None: ...
    def set_topic(self, topic: str, partition_count: int) -> None: ...
    def set_load(self, topic: str, load: PartitionLoad | None) -> None: ...
    def forget_topic(self, topic: str) -> None: ...
    def partition_count(self, topic: str) -> int: ...
    def take_ready(self, now_us: int, force: bool = False) -> list[SealedBatch]: ...
    def linger_deadline_us(self) -> int | None: ...
    def add_sealed(self, batches: Iterable[SealedBatch]) -> None: ...
    def release(self, nbytes: int) -> None: ...
