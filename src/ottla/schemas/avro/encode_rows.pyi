from collections.abc import Mapping
from typing import Any

from ottla.records.intake import RowEncoder

class AvroRowEncoder(RowEncoder):
    def __init__(self, schema_text: str, *, references: Mapping[str, str] | None = None) -> None: ...
    def encode_one(self, value: Any, prefix: bytes = b"") -> bytes: ...
