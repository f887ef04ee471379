from collections.abc import Mapping, Sequence
from typing import Any

from ottla.schemas.protobuf.schema import ProtobufSchema

class EncodedMessages:
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

class ProtobufEncoder:
    def __init__(
        self,
        schema: ProtobufSchema | str,
        message: str | None = None,
        *,
        references: Mapping[str, str] | None = None,
    ) -> None: ...
    def encode(
        self, data: Any, *, prefix: bytes = b"", columns: Sequence[str] | None = None, first_row: int = 0
    ) -> EncodedMessages: ...
