from collections.abc import Mapping
from typing import Any, Literal

from ottla.schemas.protobuf.schema import ProtobufSchema

class DecodedMessages:
    @property
    def failed_rows(self) -> list[tuple[int, str]]: ...
    @property
    def failed_count(self) -> int: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

class ProtobufDecoder:
    def __init__(
        self,
        schema: ProtobufSchema | str,
        message: str | None = None,
        *,
        references: Mapping[str, str] | None = None,
        time_unit: Literal["ns", "us"] = "ns",
    ) -> None: ...
    def decode(
        self,
        column: Any,
        *,
        skip: int = 0,
        framed: bool = False,
        schema_id: int | None = None,
        mode: Literal["fail", "null"] = "fail",
        first_row: int = 0,
        memory_bytes_max: int | None = None,
    ) -> DecodedMessages: ...
