"""A simulated disk on which the broker dies in the midst of what it does."""

from __future__ import annotations

from ottla.simulation.disk import Disk


class Death(BaseException):
    """The broker dies here."""


class DeadlyDisk(Disk):
    """A disk on which the broker dies in front of change number `dies_in`, where that is given."""

    dies_in: int | None = None

    def _count(self) -> None:
        if self.dies_in is not None:
            self.dies_in -= 1
            if self.dies_in < 0:
                self.dies_in = None
                raise Death

    def take(self, size: int) -> None:
        self._count()
        super().take(size)

    def sync(self, path: str) -> None:
        self._count()
        super().sync(path)

    def cut(self, path: str, size: int) -> None:
        super().cut(path, size)
        self._count()

    def rename(self, old: str, new: str) -> None:
        self._count()
        super().rename(old, new)

    def remove(self, path: str, *, synced: bool = False) -> None:
        if self.exists(path):
            self._count()
        super().remove(path, synced=synced)
