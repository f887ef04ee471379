from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol

from ottla.records.buffers import BufferPool
from ottla.records.delivery import Delivery, SealedBatch
from ottla.records.memory import BlockedCall, BufferMemory
from ottla.records.partitions import PartitionLoad

BytesLike = bytes | bytearray | memoryview

# What an appender calls depends on how it is used; tests/records/test_hooks.py calls all of it.
class Hooks(Protocol):
    # Wherever records are sent.
    def topic_missing(self, topic: str, call: BlockedCall) -> None: ...
    def memory_wanted(self, call: BlockedCall) -> None: ...
    def wake(self) -> None: ...
    def wait(self, batch: SealedBatch, timeout_s: float | None) -> bool: ...
    def check_usable(self) -> None: ...

class ProducerHooks(Hooks, Protocol):
    # Also called: where a delivery is awaited, with `is_eager`, and with `places`.
    def is_awaited(self, batch: SealedBatch) -> None: ...
    def send_at_once(self) -> bool: ...
    def place(self, topic: Any, key: bytes | None, call: BlockedCall) -> int | None: ...

class CoroutineHooks(ProducerHooks, Protocol):
    # Also called by `send_async`, where it has to wait.
    def send_later(
        self,
        topic: Any,
        value: Any,
        key: Any,
        headers: Any,
        partition: Any,
        timestamp_ms: Any,
        on_delivery: Callable[[Delivery], object] | None,
    ) -> Coroutine[Any, Any, Delivery]: ...

class Appender:
    sleeping: bool
    wakes_us: int
    is_released: bool
    refusal: BaseException | None
    pause_is_asked: bool
    is_eager: bool
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
    def send_blocked(
        self,
        call: BlockedCall,
        topic: str,
        value: BytesLike | str | None,
        key: BytesLike | str | None,
        headers: Sequence[tuple[str, BytesLike | str | None]] | None,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: Callable[[Delivery], object] | None,
    ) -> Delivery: ...
    @property
    def memory(self) -> BufferMemory: ...
    def pause_is_due(self) -> bool: ...
    def set_topic(self, topic: str, partition_count: int) -> None: ...
    def set_load(self, topic: str, load: PartitionLoad | None) -> None: ...
    def forget_topic(self, topic: str) -> None: ...
    def partition_count(self, topic: str) -> int: ...
    def take_new(self) -> list[SealedBatch]: ...
    def take_filled(self) -> list[SealedBatch]: ...
    def close(self, batch: SealedBatch) -> bool: ...
    def end(self, call: BlockedCall) -> None: ...
    def has_news(self) -> bool: ...
    @property
    def is_short_of_memory(self) -> bool: ...
    @property
    def buffers(self) -> BufferPool: ...
    def lend(self, batch: SealedBatch) -> bool: ...
    def add_sealed(self, batches: Iterable[SealedBatch]) -> None: ...
    def release(self, nbytes: int) -> None: ...
