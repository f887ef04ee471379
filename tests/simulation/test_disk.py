"""The simulated disk spoils what a torn sector spoils, and only where somebody can notice."""

from __future__ import annotations

from tests.broker.world import batch_of

from ottla.records.batch_header import CRC_BEGIN
from ottla.simulation.chance import Chance
from ottla.simulation.disk import Disk

PATH = "t-0/00000000000000000000.log"


def spoilt_positions(synced: int, content: bytes) -> set[int]:
    """Where bytes are changed, over many draws."""
    found = set()
    for seed in range(400):
        disk = Disk()
        file = disk.open(PATH)
        file.append([content[:synced]])
        file.sync()
        file.append([content[synced:]])
        assert disk.spoil(PATH, Chance(seed))
        after = disk.log_content("t-0")
        found |= {at for at, (old, new) in enumerate(zip(content, after, strict=True)) if old != new}
    return found


def test_only_what_a_crc_covers_is_spoilt() -> None:
    first, second = batch_of(b"a" * 9), batch_of(b"b")
    covered = {*range(CRC_BEGIN, len(first)), *range(len(first) + CRC_BEGIN, len(first) + len(second))}
    found = spoilt_positions(0, first + second)
    assert found <= covered
    assert min(found) < len(first) < max(found)


def test_what_is_synced_or_no_whole_batch_is_not_spoilt() -> None:
    first, second = batch_of(b"a"), batch_of(b"b")
    assert min(spoilt_positions(len(first), first + second)) >= len(first) + CRC_BEGIN
    disk = Disk()
    file = disk.open(PATH)
    file.append([first])
    file.sync()
    file.append([second[:-1]])
    assert not disk.spoil(PATH, Chance(1))
