"""A line of JSON in the input of `ottla produce`."""

from __future__ import annotations

import json
from typing import Any

from ottla.errors import RecordError


def read_line(line: bytes, **how: Any) -> Any:
    """What a line of JSON says; RecordError."""
    try:
        return json.loads(line, **how)
    except ValueError as error:
        raise RecordError(
            f"{line[:60].decode('utf-8', 'replace')!r} is not JSON ({error}); with --value-format each line is a JSON "
            "object."
        ) from None
