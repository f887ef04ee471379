"""`batch.size` is meant for what is stored: what compresses well fills batches with more records, as in Java."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.records.handing_over import taken_from

from ottla.records.append import Appender
from ottla.records.delivery import SealedBatch
from ottla.records.memory import BlockedCall

BATCH = 10_000
REQUEST = 200_000


class Hooks:
    """A broker that takes everything at once."""

    def wake(self) -> None: ...
    def check_usable(self) -> None: ...
    def topic_missing(self, topic: str, call: BlockedCall) -> None:
        raise AssertionError

    def memory_wanted(self, call: BlockedCall) -> None:
        raise AssertionError

    def wait(self, batch: SealedBatch, timeout_s: float | None) -> bool:
        raise AssertionError


def lines(rng: Random, count: int) -> list[bytes]:
    """Values that compress to about a third."""
    return [b'{"flight":%d,"carrier":"UA","from":"SFO","delay":%d}' % (n, rng.randrange(300)) for n in range(count)]


def sent(values: list[bytes], codec: str, **settings: Any) -> list[SealedBatch]:
    """The batches these values leave in, keyless, to one partition."""
    given = {"batch_size": BATCH, "max_request_size": REQUEST, "buffer_memory": 1 << 30, "linger_us": 10**9, **settings}
    appender = Appender(**given, hooks=Hooks(), compression=codec, clock_us=lambda: 0, clock_ms=lambda: 0)
    appender.set_topic("flights", 1)
    batches = []
    for value in values:
        appender.send("flights", value)
        batches += taken_from(appender)
    return batches + taken_from(appender, force=True)


@pytest.mark.parametrize("codec", ["lz4", "zstd", "gzip", "snappy"])
def test_batches_are_filled_to_their_size_after_compression(codec: str) -> None:
    batches = sent(lines(Random(1), 20_000), codec)
    settled = batches[40:-1]
    assert all(BATCH / 2 < batch.size_bytes <= BATCH for batch in settled)
    assert all(batch.uncompressed_bytes > 2 * BATCH for batch in settled)
    assert batches[0].uncompressed_bytes <= BATCH


def test_without_compression_nothing_passes_the_batch_size() -> None:
    assert all(batch.size_bytes <= BATCH for batch in sent(lines(Random(1), 5000), "none"))


def test_what_stops_compressing_makes_two_batches_too_large_at_most_and_none_after_them() -> None:
    rng = Random(2)
    batches = sent([*lines(rng, 20_000), *(rng.randbytes(100) for _ in range(5000))], "lz4")
    larger = [place for place, batch in enumerate(batches) if batch.size_bytes > BATCH]
    # The one the change falls into, and the one whose size was guessed from that.
    assert 1 <= len(larger) <= 2
    assert larger[-1] - larger[0] <= 1
    assert len(batches) > larger[-1] + 20
    assert max(batch.size_bytes for batch in batches) <= REQUEST


def test_no_batch_holds_more_than_a_request_may_however_well_it_compresses() -> None:
    batches = sent([bytes(1000)] * 20_000, "zstd")
    assert max(batch.uncompressed_bytes for batch in batches) <= REQUEST
    assert max(batch.uncompressed_bytes for batch in batches) > REQUEST / 2


def test_with_a_batch_size_of_zero_every_record_goes_alone_compressed_or_not() -> None:
    batches = sent([bytes(1000)] * 50, "zstd", batch_size=0)
    assert [batch.record_count for batch in batches] == [1] * 50
