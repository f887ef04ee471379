"""Client ids for clients without one, as in Java: the kind and a number that counts within the process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ottla.connection.settings import TEXT_BYTES_MAX

_numbers: dict[str, Iterator[int]] = {}


def client_id_of(kind: str, given: str, own: str | None = None) -> str:
    """`given`; without it the kind with `own` (a transactional id) behind it, or else the next number."""
    if given:
        return given
    name = f"{kind}-{own or next(_numbers.setdefault(kind, itertools.count(1)))}"
    return name.encode()[:TEXT_BYTES_MAX].decode(errors="ignore")
