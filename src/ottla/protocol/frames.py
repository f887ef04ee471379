"""Frames: a 4-byte length, a header, a message.

Encoding returns chunks for scatter/gather (`sendmsg`, `writelines`); the records among them are the caller's own
buffers. Decoding takes complete frames, which `FrameBuffer` cuts out of a stream; decoded records are views of the
frame. The header's version follows from the message's version (KIP-482). But the response header of ApiVersions always
has version 0: a client that does not know the broker's versions yet can read it (KIP-511).
"""

from __future__ import annotations

from struct import Struct, error, unpack_from
from typing import Any

from ottla.protocol.apis import REQUESTS, RESPONSES
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import (
    FrameTooLarge,
    InvalidValue,
    MalformedMessage,
    UnknownApi,
    UnsupportedVersion,
)
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages import API_VERSIONS
from ottla.protocol.messages.headers import RequestHeader
from ottla.protocol.primitives import Decoder, Encoder

LENGTH_BYTES = 4
FRAME_BYTES_MAX = 0x7FFFFFFF
# Small frames are cut out of one read of this size; what is longer gets a buffer of its own.
STAGE_BYTES = 65536
# The first buffer of a large frame has at most this size, until the connection has sent a larger frame.
FIRST_TRUST_BYTES = 65536

# The error code as the first field of an answer.
_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")

_LENGTH = Struct(">i")
_LENGTH_AND_CORRELATION = Struct(">ii")
_LENGTH_AND_REQUEST = Struct(">ihhi")


def encode_request(correlation_id: int, client_id: str | None, message: ApiMessage, version: int) -> list[Any]:
    """The chunks of a request frame, length first; raises UnsupportedField or InvalidValue.

    Chunks are bytes-likes; records that were given as something with a `size` (a `FileSlice`) are passed on as that.
    """
    _check_version(message, version)
    # What RequestHeader writes, without making one for every request.
    encoder = Encoder(_LENGTH_AND_REQUEST.pack(0, message.API_KEY, version, correlation_id))
    encoder.nullable_string(client_id)
    if version >= message.FLEXIBLE_FROM:
        encoder.out.append(0)
    return _frame(encoder, message, version)


def encode_response(correlation_id: int, message: ApiMessage, version: int) -> list[Any]:
    """The chunks of a response frame, length first; raises UnsupportedField or InvalidValue."""
    _check_version(message, version)
    encoder = Encoder(_LENGTH_AND_CORRELATION.pack(0, correlation_id))
    if version >= message.FLEXIBLE_FROM and message.API_KEY != API_VERSIONS:
        encoder.out.append(0)
    return _frame(encoder, message, version)


def decode_request(frame: memoryview, *, lenient: bool = False) -> tuple[RequestHeader, Any]:
    """The header and the message of a frame without its length.

    `lenient`: bytes after the message are ignored, as Apache Kafka's brokers do. librdkafka relies on it: its Metadata
    request of version 12 for all topics has three bytes too many at the end.

    Raises MalformedMessage, UnknownApi or UnsupportedVersion; the last two carry the header.
    """
    decoder = Decoder(frame)
    # Both header versions are the same up to the client id, so this part is read before the API is known.
    header = RequestHeader.read(decoder, 1)
    api_key, version = header.request_api_key, header.request_api_version
    try:
        request_class = REQUESTS[api_key]
    except KeyError:
        raise UnknownApi(header) from None
    if not request_class.MIN_VERSION <= version <= request_class.MAX_VERSION:
        raise UnsupportedVersion(header, request_class.__name__, request_class.MIN_VERSION, request_class.MAX_VERSION)
    if version >= request_class.FLEXIBLE_FROM:
        decoder.skip_tags()
    return header, _message(request_class, decoder, version, lenient)


def decode_response(frame: memoryview, request_class: type[ApiMessage], version: int) -> tuple[int, Any]:
    """The correlation id and the message of a frame without its length; raises MalformedMessage.

    An ApiVersions answer with UNSUPPORTED_VERSION has version 0, whatever was requested (KIP-511).
    """
    decoder = Decoder(frame)
    correlation_id = decoder.int32()
    if request_class.API_KEY == API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION:
        version = 0
    if version >= request_class.FLEXIBLE_FROM and request_class.API_KEY != API_VERSIONS:
        decoder.skip_tags()
    return correlation_id, _message(RESPONSES[request_class.API_KEY], decoder, version)


def correlation_id_of(frame: memoryview) -> int:
    """The correlation id of a response frame, to find the request that it answers; raises MalformedMessage."""
    return Decoder(frame).int32()


class FrameBuffer:
    """Cuts a stream of bytes into frames: `get_buffer()`, read into it, `advance(n)`.

    A frame that does not arrive with one read gets a buffer of its own, into which further reads go. At first that
    buffer is no larger than the largest frame of this connection so far (64 KiB at least), or twice the bytes that
    have arrived. Then it doubles as bytes arrive: a length field alone never makes it allocate memory.

    `broken` is the error after which the stream cannot be read on; the frames returned so far are good.

    Many FrameBuffers may share one `stage` (of STAGE_BYTES), if `get_buffer` and `advance` of one are not mixed with
    those of another. Then a server with a thousand idle connections needs 64 KiB, not 64 MiB.
    """

    def __init__(self, max_frame_bytes: int, stage: bytearray | None = None) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._stage = bytearray(STAGE_BYTES) if stage is None else stage
        # The first bytes of a length that is not complete, at most three.
        self._rest = b""
        # The frame that is being read, None if its length is not known yet.
        self._frame: bytearray | None = None
        self._frame_bytes = 0
        self._filled = 0
        self._trust_bytes = FIRST_TRUST_BYTES
        self.broken: FrameTooLarge | None = None

    def get_buffer(self) -> memoryview:
        """The buffer for the next bytes of the stream; never empty."""
        if self._frame is None:
            rest = self._rest
            if not rest:
                return memoryview(self._stage)
            self._stage[: len(rest)] = rest
            return memoryview(self._stage)[len(rest) :]
        return memoryview(self._frame)[self._filled :]

    def advance(self, size: int) -> list[memoryview]:
        """Take in `size` bytes that were read, and return the frames that are complete, without their lengths.

        Every frame has memory of its own and is writable. Raises FrameTooLarge if the stream cannot be read on. If
        complete frames came before that, they are returned first; `broken` is the error and the next call raises it.
        """
        if self.broken is not None:
            raise self.broken
        if self._frame is None:
            return self._cut_stage(len(self._rest) + size)
        self._filled += size
        if self._filled == self._frame_bytes:
            frame = memoryview(self._frame)
            self._trust_bytes = max(self._trust_bytes, self._frame_bytes)
            self._frame = None
            return [frame]
        if self._filled == len(self._frame):
            grown = bytearray(min(self._frame_bytes, 2 * self._filled))
            grown[: self._filled] = self._frame
            self._frame = grown
        return []

    def _cut_stage(self, end: int) -> list[memoryview]:
        frames: list[memoryview] = []
        stage, begin = self._stage, 0
        while end - begin >= LENGTH_BYTES:
            (length,) = unpack_from(">i", stage, begin)
            if not 0 <= length <= self.max_frame_bytes:
                self.broken = FrameTooLarge(length, self.max_frame_bytes)
                if not frames:
                    raise self.broken
                return frames
            begin += LENGTH_BYTES
            if end - begin < length:
                self._begin_frame(length, begin, end)
                begin = end
                break
            frames.append(memoryview(stage[begin : begin + length]))
            begin += length
        self._rest = bytes(stage[begin:end])
        return frames

    def _begin_frame(self, length: int, begin: int, end: int) -> None:
        self._filled = end - begin
        self._frame_bytes = length
        self._frame = bytearray(min(length, max(self._trust_bytes, 2 * self._filled)))
        self._frame[: self._filled] = memoryview(self._stage)[begin:end]


def _check_version(message: ApiMessage, version: int) -> None:
    if not message.MIN_VERSION <= version <= message.MAX_VERSION:
        raise InvalidValue(
            f"{type(message).__name__} version {version} does not exist; "
            f"{message.MIN_VERSION} to {message.MAX_VERSION} do"
        )


def _frame(encoder: Encoder, message: ApiMessage, version: int) -> list[Any]:
    """Write the message after the header, and the length in front."""
    try:
        message.write(encoder, version)
        size = encoder.size - LENGTH_BYTES
        chunks = encoder.chunks()
        _LENGTH.pack_into(chunks[0], 0, size)
    except error as cause:
        raise InvalidValue(f"{type(message).__name__} version {version}: {cause}") from None
    except InvalidValue as cause:
        raise InvalidValue(f"{type(message).__name__} version {version}: {cause}") from None
    return chunks


def _message(message_class: type[ApiMessage], decoder: Decoder, version: int, lenient: bool = False) -> ApiMessage:
    try:
        message = message_class.read(decoder, version)
        if not lenient:
            decoder.finish()
    except MalformedMessage as cause:
        raise MalformedMessage(f"{message_class.__name__} version {version}: {cause}") from None
    return message
