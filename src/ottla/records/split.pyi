from collections.abc import Iterable

from ottla.records.delivery import SealedBatch

def split(batch: SealedBatch, compression: str = "none", level: int | None = None) -> list[SealedBatch]: ...
def split_out(
    batch: SealedBatch, rows: Iterable[int], compression: str = "none", level: int | None = None
) -> list[SealedBatch]: ...
