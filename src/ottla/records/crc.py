"""CRC-32C, loaded with the first batch: the library looks up its own version, 20 ms that no cluster should wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_crc32c: Callable[..., int] | None = None


def crc32c(data: Any, value: int = 0) -> int:
    """The CRC-32C (Castagnoli) of `data`, a bytes-like, going on from `value`."""
    global _crc32c
    if _crc32c is None:
        from crc32c import crc32c as loaded

        _crc32c = loaded
    return _crc32c(data, value)
