"""Frames to do harm with: valid requests of every API and version, made from the messages' own fields, and ways to
damage them.

A request is made of words and numbers that mean something to the brokers of a test (topics that exist, groups, offsets
around the edges), so that many reach the code behind the decoder; damage is done to its bytes.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

from ottla.protocol.apis import REQUESTS
from ottla.protocol.errors import InvalidValue, UnsupportedField
from ottla.protocol.frames import encode_request
from ottla.protocol.message import ApiMessage, Message
from ottla.records.plain import Record, encode_batch

TOPIC = "fuzzed"
WORDS = (
    TOPIC,
    TOPIC,
    "",
    "nobody",
    "group",
    "member",
    "consumer",
    "1",
    "-1",
    "__consumer_offsets",
    "é\0/..",
    "w" * 300,
)
NUMBERS = (-1, -1, 0, 0, 0, 1, 1, 2, 3, 5, 100, -2, 127, -128)
LARGE_NUMBERS = (1000, 30_000, 32_767, -32_768, 100_000, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63))
LIST_MAX = 3
DEPTH_MAX = 5


@cache
def fields_of(message_class: type[Message]) -> dict[str, Any]:
    """The fields of a message and their types."""
    hints = typing.get_type_hints(message_class.__init__)
    hints.pop("return")
    return hints


class Requests:
    """Makes valid requests; `topic_ids` are known to the brokers, so some requests will name them."""

    def __init__(self, rng: Random, topic_ids: tuple[bytes, ...] = ()) -> None:
        self.rng = rng
        self._uuids = (*topic_ids, bytes(16), bytes(range(16)))

    def message(self, message_class: type[Message], *, large: bool = True, depth: int = 0) -> Any:
        """A message with all fields set to something."""
        fields = fields_of(message_class)
        made = {name: self._value(name, hint, large, depth) for name, hint in fields.items()}
        return message_class(**made)

    def frame(self, api_key: int, version: int) -> bytes:
        """A whole valid frame, length first."""
        rng = self.rng
        large = rng.random() < 0.3
        message: ApiMessage = self.message(REQUESTS[api_key], large=large)
        while True:
            try:
                chunks = encode_request(rng.randrange(1 << 31), rng.choice((None, "", "fuzz")), message, version)
                return b"".join(bytes(chunk) for chunk in chunks)
            except UnsupportedField as error:
                self._leave_out(message, error)
            except InvalidValue:
                # Null or a number too large for the field: take what fits anywhere.
                message = self.message(REQUESTS[api_key], large=False)

    def _leave_out(self, message: Message, error: UnsupportedField) -> None:
        """Set the field that the version cannot carry to its default wherever it stands."""
        owner, name = str(error).split(" ", 1)[0].split(".")
        for part in parts_of(message):
            if type(part).__name__ == owner:
                setattr(part, name, getattr(type(part)(), name))

    def _value(self, name: str, hint: Any, large: bool, depth: int) -> Any:
        rng = self.rng
        choices = typing.get_args(hint)
        if type(None) in choices:
            if rng.random() < 0.2:
                return None
            (hint,) = (choice for choice in choices if choice is not type(None))
        if typing.get_origin(hint) is list:
            if depth >= DEPTH_MAX:
                return []
            (element,) = typing.get_args(hint)
            return [self._value(name, element, large, depth + 1) for _ in range(rng.randrange(LIST_MAX + 1))]
        if hint is str:
            return rng.choice(WORDS)
        if hint is bool:
            return rng.random() < 0.5
        if hint is int:
            return rng.choice(LARGE_NUMBERS) if large and rng.random() < 0.2 else rng.choice(NUMBERS)
        if hint is float:
            return rng.choice((0.0, -1.0, float("nan"), float("inf")))
        if hint is bytes and name.endswith("id"):
            return rng.choice(self._uuids)
        if isinstance(hint, type) and issubclass(hint, Message):
            return self.message(hint, large=large, depth=depth)
        return self.records() if rng.random() < 0.8 else rng.randbytes(rng.randrange(20))

    def records(self) -> bytes:
        """A record batch, most of them good."""
        rng = self.rng
        count = rng.randrange(1, 4)
        records = [Record(index, 1000 + index, None, rng.randbytes(rng.randrange(30))) for index in range(count)]
        producer_id = rng.choice((-1, -1, 0, 1))
        batch = encode_batch(
            records, producer_id=producer_id, producer_epoch=min(producer_id, 0), base_sequence=min(producer_id, 0)
        )
        return damaged(rng, batch) if rng.random() < 0.2 else batch


def parts_of(message: Message) -> Iterator[Message]:
    """A message and all structs in it."""
    yield message
    for name in message.__slots__:
        value = getattr(message, name)
        for part in value if isinstance(value, list) else (value,):
            if isinstance(part, Message):
                yield from parts_of(part)


# Ways to damage bytes.


def flip_bits(rng: Random, content: bytearray) -> None:
    for _ in range(rng.randrange(1, 5)):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def cut(rng: Random, content: bytearray) -> None:
    del content[rng.randrange(len(content)) :]


def lie_in_a_byte(rng: Random, content: bytearray) -> None:
    content[rng.randrange(len(content))] = rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))


def lie_in_a_length(rng: Random, content: bytearray) -> None:
    """Overwrite what may be a length, a count or a number with another one, two, four or eight bytes wide."""
    width = rng.choice((2, 4, 4, 8))
    at = rng.randrange(max(1, len(content) - width))
    value = rng.choice((-1, 0, 1, -2, len(content), 1 << 15, (1 << 8 * width - 1) - 1, -(1 << 8 * width - 1)))
    content[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width)


def lie_in_a_varint(rng: Random, content: bytearray) -> None:
    """Put a far varint, or one that never ends, where something else was."""
    far = rng.choice((b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x01", b"\xff" * 12, b"\x80" * 5))
    at = rng.randrange(len(content))
    content[at : at + rng.randrange(3)] = far


def repeat_a_part(rng: Random, content: bytearray) -> None:
    begin = rng.randrange(len(content))
    part = content[begin : begin + rng.randrange(1, 40)]
    content[begin:begin] = part * rng.randrange(1, 20)


def remove_a_part(rng: Random, content: bytearray) -> None:
    begin = rng.randrange(len(content))
    del content[begin : begin + rng.randrange(1, 20)]


def add_bytes(rng: Random, content: bytearray) -> None:
    content += rng.randbytes(rng.randrange(1, 40))


def replace_all(rng: Random, content: bytearray) -> None:
    content[:] = rng.randbytes(rng.randrange(200))


DAMAGES: tuple[Callable[[Random, bytearray], None], ...] = (
    flip_bits,
    flip_bits,
    cut,
    lie_in_a_byte,
    lie_in_a_length,
    lie_in_a_length,
    lie_in_a_varint,
    repeat_a_part,
    remove_a_part,
    add_bytes,
    replace_all,
)


def damaged(rng: Random, content: bytes) -> bytes:
    """The bytes after one to three kinds of damage."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if changed:
            rng.choice(DAMAGES)(rng, changed)
    return bytes(changed)


def lying_header(rng: Random, content: bytes) -> bytes:
    """Another API key or another version in front of the same message (a frame without its length)."""
    changed = bytearray(content)
    at = rng.choice((0, 2))
    changed[at : at + 2] = (rng.choice((-1, 0, 1, 3, 8, 11, 18, 19, 22, 50, 9999)) & 0xFFFF).to_bytes(2)
    return bytes(changed)


def damaged_frame(rng: Random, frame: bytes) -> bytes:
    """A frame, length first, most likely damaged; its length fits, so that the content is what is looked at."""
    content = frame[4:]
    kind = rng.random()
    if kind < 0.1:
        content = lying_header(rng, content)
    elif kind < 0.9:
        content = damaged(rng, content)
    return len(content).to_bytes(4) + content
