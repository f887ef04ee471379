"""Checks the arguments of a `Cluster` before a command is sent: in the brokers' process a wrong one fails unclearly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.errors import ConfigError
from ottla.faults.fields import WAIT, YES_OR_NO, May, whole


def _are_configs(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        type(name) is str and type(each) in (str, int, float) for name, each in value.items()
    )


_TEXT = May("a text", lambda value: type(value) is str)
_WHOLE = May("an integer", lambda value: type(value) is int)
_MAPPING = May("a mapping", lambda value: isinstance(value, Mapping))

_WANTED = {
    "name": _TEXT,
    "topic": _TEXT,
    "partition": _WHOLE,
    "partitions": _WHOLE,
    "unclean": YES_OR_NO,
    "timeout": WAIT,
}
_OPTIONAL = {
    "broker_id": _WHOLE,
    "other_than": _WHOLE,
    "size": whole(1),
    "replication_factor": _WHOLE,
    "group": _TEXT,
    "transactional_id": _TEXT,
    "configs": May("a mapping of names to texts or numbers", _are_configs),
    "settings": _MAPPING,
    "listeners": _MAPPING,
}


def check_arguments(**given: Any) -> None:
    """ConfigError for an argument of the wrong kind; those that may be left out may be None."""
    for name, value in given.items():
        may = _WANTED.get(name)
        if may is None:
            if value is None:
                continue
            may = _OPTIONAL[name]
        if not may.holds(value):
            raise ConfigError(f"{name}={value!r} must be {may.words}.")
