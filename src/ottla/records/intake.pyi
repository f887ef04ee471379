from collections.abc import Callable
from typing import Any

class RowEncoder:
    def __call__(self, value: Any, prefix: bytes) -> bytes: ...

class Serialization:
    name: str
    writes_headers: bool
    def __init__(self, setting: str, serializer: Any, name: str | None = None) -> None: ...

class Intake:
    def __init__(
        self,
        append: Callable[..., Any],
        *,
        key_serializer: Serialization | None = None,
        value_serializer: Serialization | None = None,
        interceptors: Any = None,
        later: Callable[..., Any] | None = None,
    ) -> None: ...
    is_asking: bool
    def has_to_ask(self, topic: Any, value: Any, key: Any) -> bool: ...
    def ask(self, topic: Any, value: Any, key: Any) -> tuple[Any, Any]: ...
    def learn(self, topic: Any, answers: tuple[Any, Any]) -> None: ...
    def go_on(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any, on_delivery: Any
    ) -> Any: ...
    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[..., object] | None = None,
    ) -> Any: ...
