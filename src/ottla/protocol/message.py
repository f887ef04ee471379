"""What all generated messages have in common.

A message is a plain class with `__slots__`, one for all versions: the version is an argument of `read` and `write`.
A field that a version does not have gets the descriptor's default by `read`. `write` leaves it out if the descriptor
calls it ignorable; otherwise it raises `UnsupportedField` if the field is set. A missing tagged struct is None.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ottla.protocol.primitives import Decoder, Encoder

# Means "no list was given" in signatures: then every message gets a list of its own.
ABSENT: list[Any] = []
ZERO_UUID = bytes(16)
# Of longer byte strings only the size is shown.
SHOWN_BYTES_MAX = 32
# SASL sends passwords, tokens, or what is computed from them.
SECRET_FIELDS = ("auth_bytes",)


class Message:
    """A struct of the Kafka protocol; its fields are compared and shown."""

    __slots__: tuple[str, ...] = ()

    @classmethod
    def read(cls, decoder: Decoder, version: int) -> Self:
        """The message at the decoder's position; raises MalformedMessage."""
        raise NotImplementedError

    def write(self, encoder: Encoder, version: int) -> None:
        """Append the message; raises UnsupportedField or InvalidValue."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{name}={'[hidden]' if name in SECRET_FIELDS else _shown(getattr(self, name))}" for name in self.__slots__
        )
        return f"{type(self).__name__}({fields})"


class ApiMessage(Message):
    """A request or a response, with API key and versions of its descriptor."""

    __slots__ = ()

    API_KEY: ClassVar[int]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    # The first version with compact lengths and tagged fields (KIP-482).
    FLEXIBLE_FROM: ClassVar[int]


def _shown(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value):,} bytes>" if len(value) > SHOWN_BYTES_MAX else repr(bytes(value))
    return repr(value)
