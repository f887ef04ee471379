"""What says what goes wrong, as it travels from the holder of a cluster to its brokers: plain fields, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from ottla.errors import ConfigError
from ottla.value import Value


class Described(Value):
    """A value that can be written down as a mapping (JSON keeps it) and read again."""

    __slots__: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The fields as plain values; what was not given is left out."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """What `to_dict` wrote; raises ConfigError for unknown fields."""
        unknown = [name for name in fields if name not in cls.__slots__]
        if unknown:
            raise ConfigError(f"fault field {unknown[0]!r} is unknown; known fields are {', '.join(cls.__slots__)}")
        return cls(**fields)
