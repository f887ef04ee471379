from collections.abc import Mapping
from typing import Any

class AvroRowDecoder:
    def __init__(
        self,
        writer_text: str,
        reader_text: str | None = None,
        *,
        references: Mapping[str, str] | None = None,
        reader_references: Mapping[str, str] | None = None,
    ) -> None: ...
    def decode_one(self, payload: bytes | bytearray | memoryview, skip: int = 0) -> Any: ...
