from typing import Any

def digest_rows(
    data: Any,
    *,
    topic: str | None = None,
    key: str | None = None,
    value: str | None = None,
    headers: str | None = None,
    partition: str | None = None,
    timestamp: str | None = None,
) -> int: ...
