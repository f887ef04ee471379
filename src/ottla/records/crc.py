"""CRC-32C; its library is imported with the first batch, because that takes 20 ms (it looks up its own version)."""

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
