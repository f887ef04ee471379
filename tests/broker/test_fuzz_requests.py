"""No frame whatsoever makes a broker raise, hang or allocate without bound, and none harms those served beside it.

The frames are those of `frame_corpus`: valid requests of every API and version, most of them damaged, cut out of a
stream and decoded as the server does it, and handed to broker cores when they decode. Answers are encoded, too.

Nothing is judged by the clock: a frame may use so much memory (`Ceiling`), brokers may talk so long about it
(`World.drain`), and a test that hangs all the same ends the run with the stacks of its threads (pyproject.toml).
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.broker.apis import VERSIONS
from ottla.broker.events import ConnectionLost, RequestReceived
from ottla.protocol.errors import ProtocolError
from ottla.protocol.frames import FrameBuffer, decode_request

from .frame_corpus import TOPIC, Requests, damaged, damaged_frame
from .world import World, batch_of, records_of

CASES_PER_API = 3_000
CASES_PER_WORLD = 500
# How many of them are altered at least, a hundred thousand over all APIs: one in ten goes out as it is.
ALTERED_PER_API_MIN = -(-100_000 // len(VERSIONS))
FRAME_BYTES_MAX = 1 << 20
# What a single frame or stream may add to the memory this process has mapped, whether it is touched or not.
CASE_BYTES_MAX = 16 << 20
HEALTHY = "healthy"


class Ceiling:
    """Memory for one case: what asks for more than `CASE_BYTES_MAX` beyond what there is gets a MemoryError.

    What was freed and is kept for later by malloc may be used besides; that is given back to the system to begin with.
    """

    def __init__(self) -> None:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # the GNU C library has it
        if trim is not None:
            trim(0)
        self._limits = resource.getrlimit(resource.RLIMIT_AS)
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._statm = os.open("/proc/self/statm", os.O_RDONLY) if os.path.isdir("/proc/self") else None

    def lower(self) -> None:
        """From now on, until it is lowered or lifted again."""
        if self._statm is not None:
            mapped = int(os.pread(self._statm, 64, 0).split(b" ", 1)[0]) * self._page_bytes
            resource.setrlimit(resource.RLIMIT_AS, (mapped + CASE_BYTES_MAX, self._limits[1]))

    def lift(self) -> None:
        """The test is over."""
        resource.setrlimit(resource.RLIMIT_AS, self._limits)
        if self._statm is not None:
            os.close(self._statm)


@pytest.fixture
def ceiling() -> Iterator[Ceiling]:
    ceiling = Ceiling()
    yield ceiling
    ceiling.lift()


class Battered:
    """Brokers under fire, with a topic that the attackers know of and one that they do not."""

    def __init__(self, seed: Any, brokers: int = 1) -> None:
        self.rng = Random(f"frames {seed}")
        self.world = World(brokers)
        assert self.world.create_topic(TOPIC, 2, brokers) == 0
        assert self.world.create_topic(HEALTHY, 1, brokers) == 0
        ids = tuple(self.world.controller.image.topics[name].topic_id for name in (TOPIC, HEALTHY))
        self.requests = Requests(self.rng, ids[:1])
        self.handled: Counter[int] = Counter()
        self._stored = 0

    def feed(self, stream: bytes, *, chunk_bytes: int = 1 << 16) -> bool:
        """Let bytes arrive on a new connection; False where the server would have closed it."""
        connection = self.world.connect()
        frames = FrameBuffer(FRAME_BYTES_MAX)
        left = memoryview(stream)
        while left:
            room = frames.get_buffer()
            size = min(len(room), len(left), chunk_bytes)
            room[:size] = left[:size]
            left = left[size:]
            try:
                for frame in frames.advance(size):
                    self.handle(connection, frame)
            except ProtocolError:
                return False
        return True

    def handle(self, connection: int, frame: memoryview) -> None:
        """What the server does with a frame; raises ProtocolError where that closes the connection."""
        header, message = decode_request(frame, lenient=True)
        world = self.world
        event = RequestReceived(
            connection, header.correlation_id, header.request_api_version, header.client_id, message, len(frame)
        )
        try:
            world.brokers[1].receive(event, world.now_us)
            world.drain()
        except ProtocolError as error:
            raise AssertionError("an answer cannot be encoded") from error
        self.handled[header.request_api_version] += 1

    def leave(self) -> None:
        """All attackers' connections end, and time passes."""
        world = self.world
        for number in range(world.last_connection + 1):
            world.brokers[1].receive(ConnectionLost(number), world.now_us)
        world.drain()
        world.answers.clear()
        world.order.clear()
        world.pass_time(100)

    def is_sound(self) -> None:
        """Another client stores a record and reads back all that was stored so."""
        value = b"value %d" % self._stored
        answer = self.world.produce(batch_of(value), topic=HEALTHY)
        assert (answer.error_code, answer.base_offset) == (0, self._stored)
        self._stored += 1
        assert records_of(self.world.fetch(self._stored - 1, topic=HEALTHY))[-1].value == value


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads from /proc how much memory is mapped")
def test_the_ceiling_stops_whoever_asks_for_too_much(ceiling: Ceiling) -> None:
    for _ in range(3):
        ceiling.lower()
        with pytest.raises(MemoryError):
            bytearray(4 * CASE_BYTES_MAX)  # zeros that nobody touches would not show in what is resident
    ceiling.lower()
    assert len(bytearray(CASE_BYTES_MAX // 2)) == CASE_BYTES_MAX // 2


@pytest.mark.parametrize("api_key", VERSIONS)
def test_damaged_requests_of_every_version_harm_nobody(api_key: int, ceiling: Ceiling) -> None:
    lowest, highest = VERSIONS[api_key]
    handled: Counter[int] = Counter()
    altered = 0
    for number in range(CASES_PER_API // CASES_PER_WORLD):
        battered = Battered((api_key, number), brokers=1 + number % 2 * 2)
        for case in range(CASES_PER_WORLD):
            if case % 100 == 0:
                battered.leave()
                battered.is_sound()
            version = lowest + case % (highest - lowest + 1)
            frame = battered.requests.frame(api_key, version)
            sent = damaged_frame(battered.rng, frame)
            altered += sent != frame
            ceiling.lower()
            battered.feed(sent)
        battered.leave()
        battered.is_sound()
        handled += battered.handled
    for version in range(lowest, highest + 1):
        share = CASES_PER_API // (highest - lowest + 1)
        assert handled[version] > share // 20, f"hardly a frame of version {version} came as far as the broker"
    assert altered >= ALTERED_PER_API_MIN


@pytest.mark.parametrize("seed", range(40))
def test_streams_of_frames_with_lies_about_their_lengths_harm_nobody(seed: int, ceiling: Ceiling) -> None:
    battered = Battered(("streams", seed), brokers=1 + seed % 2 * 2)
    rng = battered.rng
    for _ in range(10):
        frames = []
        for _ in range(20):
            api_key = rng.choice(list(VERSIONS))
            frame = battered.requests.frame(api_key, rng.randint(*VERSIONS[api_key]))
            frames.append(damaged_frame(rng, frame) if rng.random() < 0.3 else frame)
        stream = b"".join(frames)
        ceiling.lower()
        battered.feed(damaged(rng, stream) if rng.random() < 0.5 else stream, chunk_bytes=rng.choice((1, 7, 100, 9999)))
    battered.leave()
    battered.is_sound()


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_whatever_hypothesis_thinks_of_harms_nobody(data: st.DataObject) -> None:
    battered = Battered("hypothesis")
    for content in data.draw(st.lists(st.binary(max_size=300), max_size=5)):
        battered.feed(len(content).to_bytes(4) + content)
    api_key = data.draw(st.sampled_from(list(VERSIONS)))
    version = data.draw(st.integers(*VERSIONS[api_key]))
    header = api_key.to_bytes(2) + version.to_bytes(2) + bytes(4) + b"\xff\xff" + b"\0" * data.draw(st.booleans())
    content = header + data.draw(st.binary(max_size=200))
    battered.feed(len(content).to_bytes(4) + content)
    battered.leave()
    battered.is_sound()
