"""Frames: cut out of a stream however it arrives, and refused without taking memory for what they promise."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.errors import (
    FrameTooLarge,
    InvalidValue,
    MalformedMessage,
    ProtocolError,
    UnknownApi,
    UnsupportedVersion,
)
from ottla.protocol.frames import (
    STAGE_BYTES,
    FrameBuffer,
    correlation_id_of,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.messages.produce import ProduceRequest


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def feed(buffer: FrameBuffer, data: bytes, step: int) -> list[memoryview]:
    """What comes out when `data` arrives in reads of up to `step` bytes."""
    frames = []
    view = memoryview(data)
    while view:
        room = buffer.get_buffer()
        assert len(room) > 0
        size = min(step, len(room), len(view))
        room[:size] = view[:size]
        frames += buffer.advance(size)
        view = view[size:]
    return frames


def frame_of(chunks: list[bytes]) -> memoryview:
    return memoryview(bytearray(b"".join(chunks)))[4:]


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 40) | st.sampled_from([65_530, 65_536, 70_000, 300_000]), max_size=6),
    st.sampled_from([1_000, 4_096, 65_536, 1_000_000]) | st.integers(2, 64),
)
def test_frames_come_out_the_same_however_the_bytes_arrive(sizes: list[int], step: int) -> None:
    frames = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    step = max(step, sum(sizes) // 2_000)
    found = feed(FrameBuffer(1 << 20), b"".join(map(framed, frames)), step)
    assert [bytes(frame) for frame in found] == frames


def test_frames_fed_byte_by_byte_come_out_whole() -> None:
    frames = [b"", b"a", bytes(range(256)) * 3, b"", b"end"]
    assert feed(FrameBuffer(1000), b"".join(map(framed, frames)), 1) == frames


def test_every_frame_has_writable_memory_of_its_own() -> None:
    buffer = FrameBuffer(1 << 20)
    frames = feed(buffer, framed(b"aaaa") + framed(b"b" * 100_000) + framed(b"cccc"), 1 << 20)
    frames += feed(buffer, framed(b"dddd"), 1 << 20)
    for frame in frames:
        assert not frame.readonly
        frame[:4] = b"XXXX"
    assert [bytes(frame[:6]) for frame in frames] == [b"XXXX", b"XXXXbb", b"XXXX", b"XXXX"]
    assert len({id(frame.obj) for frame in frames}) == 4


def test_a_large_frame_is_read_into_its_own_memory() -> None:
    buffer = FrameBuffer(1 << 24)
    feed(buffer, framed(bytes(1 << 20)), 1 << 20)
    data = framed(b"x" * (1 << 20))
    assert feed(buffer, data[:1000], 1000) == []
    room = buffer.get_buffer()
    # This connection has sent such a frame before, so all of it fits at once.
    assert len(room) == len(data) - 1000
    room[:] = data[1000:]
    (frame,) = buffer.advance(len(room))
    assert frame.obj is room.obj


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1, 0x48545450])
def test_a_length_out_of_bounds_is_refused_before_anything_is_read(size: int) -> None:
    with pytest.raises(FrameTooLarge, match="1,000 are allowed") as caught:
        feed(FrameBuffer(1000), struct.pack(">i", size), 4)
    assert (caught.value.size, caught.value.limit) == (size, 1000)


def test_memory_follows_what_arrived_not_what_was_promised() -> None:
    buffer = FrameBuffer(1 << 30)
    tracemalloc.start()
    try:
        feed(buffer, struct.pack(">i", 1 << 30) + b"only this", 1 << 16)
        assert tracemalloc.get_traced_memory()[1] < 300_000
        feed(buffer, bytes(1_000_000), 1 << 16)
        assert tracemalloc.get_traced_memory()[1] < 6_000_000
    finally:
        tracemalloc.stop()


def test_the_response_header_of_api_versions_never_has_tags() -> None:
    response = ApiVersionsResponse(error_code=42)
    chunks = encode_response(7, response, 3)
    assert frame_of(chunks)[:6] == struct.pack(">ih", 7, 42)
    assert decode_response(frame_of(chunks), ApiVersionsRequest, 3) == (7, response)
    assert frame_of(encode_response(7, MetadataResponse(), 9))[:5] == struct.pack(">ib", 7, 0)


def test_an_unknown_api_is_told_with_its_header() -> None:
    with pytest.raises(UnknownApi, match="API key 999") as caught:
        decode_request(memoryview(struct.pack(">hhih", 999, 3, 42, -1) + b"whatever"))
    assert (caught.value.header.correlation_id, caught.value.header.client_id) == (42, None)


@pytest.mark.parametrize(("api_key", "version"), [(18, 5), (18, 127), (0, 2), (3, -1)])
def test_an_unsupported_version_is_told_with_its_header(api_key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion, match=f"version {version} is not supported; versions") as caught:
        decode_request(memoryview(struct.pack(">hhih", api_key, version, 42, 2) + b"me\0\1\2\3"))
    header = caught.value.header
    assert (header.request_api_version, header.correlation_id, header.client_id) == (version, 42, "me")


def test_a_malformed_message_is_named() -> None:
    frame = frame_of(encode_request(1, None, MetadataRequest(topics=[MetadataRequestTopic(name="flights")]), 4))
    with pytest.raises(MalformedMessage, match="MetadataRequest version 4: 1 bytes too many after byte"):
        decode_request(memoryview(bytes(frame) + b"\0"))
    with pytest.raises(MalformedMessage, match="MetadataRequest version 4: "):
        decode_request(frame[:-1])


@given(st.binary(max_size=60), st.sampled_from([0, 1, 2, 3, 18, 19, 20, 22]), st.integers(0, 13))
def test_garbage_is_a_message_or_a_protocol_error(garbage: bytes, api_key: int, version: int) -> None:
    for data in (garbage, struct.pack(">hhih", api_key, version, 1, -1) + garbage):
        try:
            decode_request(memoryview(data))
            correlation_id_of(memoryview(data))
        except ProtocolError:
            continue


@pytest.mark.parametrize("api_key", [0, 1, 2, 3, 18, 19, 20, 22])
def test_arrays_of_billions_allocate_nothing(api_key: int) -> None:
    tracemalloc.start()
    try:
        for version in range(14):
            for filling in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"):
                with pytest.raises(ProtocolError):
                    decode_request(memoryview(struct.pack(">hhih", api_key, version, 1, -1) + filling * 9))
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def test_a_value_that_does_not_fit_is_named_with_its_message() -> None:
    with pytest.raises(InvalidValue, match=r"ProduceRequest version 9: .*32767"):
        encode_request(1, None, ProduceRequest(acks=99_999), 9)
    with pytest.raises(InvalidValue, match="MetadataRequest version 9: a string is wanted, not NoneType"):
        encode_request(1, None, MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9)
    with pytest.raises(InvalidValue, match="ProduceRequest version 2 does not exist; 3 to 13 do"):
        encode_request(1, None, ProduceRequest(), 2)


@pytest.mark.parametrize("asked", [1, 2, 3, 4])
def test_a_refused_api_versions_is_read_in_version_0_whatever_was_asked(asked: int) -> None:
    refusal = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)])
    frame = frame_of(encode_response(7, refusal, 0))
    assert decode_response(frame, ApiVersionsRequest, asked) == (7, refusal)


def test_whole_frames_before_an_impossible_one_come_out_first() -> None:
    buffer = FrameBuffer(1000)
    data = framed(b"one") + framed(b"two") + struct.pack(">i", 1001) + b"rubbish"
    buffer.get_buffer()[: len(data)] = data
    assert [bytes(frame) for frame in buffer.advance(len(data))] == [b"one", b"two"]
    assert buffer.broken is not None
    assert buffer.broken.size == 1001
    with pytest.raises(FrameTooLarge, match="1,001"):
        buffer.advance(0)


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 100])
def test_buffers_that_share_a_stage_do_not_mix(step: int) -> None:
    stage = bytearray(STAGE_BYTES)
    streams = [b"".join(framed(bytes([number]) * size) for size in (0, 1, 5, 90, 300)) for number in (1, 2, 3)]
    buffers = [FrameBuffer(1000, stage) for _ in streams]
    found: list[list[bytes]] = [[] for _ in streams]
    for position in range(0, len(streams[0]), step):
        for stream, buffer, frames in zip(streams, buffers, found, strict=True):
            piece = stream[position : position + step]
            while piece:
                room = buffer.get_buffer()
                size = min(len(room), len(piece))
                room[:size] = piece[:size]
                frames += map(bytes, buffer.advance(size))
                piece = piece[size:]
    assert found == [[bytes([number]) * size for size in (0, 1, 5, 90, 300)] for number in (1, 2, 3)]
