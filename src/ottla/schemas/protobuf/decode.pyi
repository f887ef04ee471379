from collections.abc import Mapping
from typing import Any, Literal

from ottla.schemas.protobuf.schema import ProtobufSchema

class DecodedMessages:
    errors: int
    first_error: str | None
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
        limit_bytes: int = ...,
    ) -> DecodedMessages: ...
