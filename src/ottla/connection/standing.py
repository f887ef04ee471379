"""Whether a client can be used, and if not, why: its process forked, its I/O thread died, or it is closed.

Any thread that learns of one of these reports it here. They are for good, and the first of them in this order is told.
"""

from __future__ import annotations

from ottla.errors import OttlaError, fresh


class Standing:
    """The standing of one client."""

    __slots__ = ("_closed", "_crash", "_fork")

    def __init__(self) -> None:
        self._fork: OttlaError | None = None
        self._crash: OttlaError | None = None
        self._closed: OttlaError | None = None

    @property
    def why_over(self) -> OttlaError | None:
        """Why the client can never be used again; None while it can."""
        return self._fork or self._crash or self._closed

    @property
    def has_forked(self) -> bool:
        """Whether this is a child of the process whose client it is."""
        return self._fork is not None

    @property
    def crash(self) -> OttlaError | None:
        """Why the I/O thread died; None while it has not."""
        return self._crash

    @property
    def is_closed(self) -> bool:
        """Whether somebody has closed it, be it that it still delivers what was sent."""
        return self._closed is not None

    def check_usable(self) -> None:
        """Raise if it can never be used again."""
        why = self.why_over
        if why is not None:
            raise fresh(why)

    def check_process(self) -> None:
        """Raise in a child of the process whose client it is."""
        if self._fork is not None:
            raise fresh(self._fork)

    def fork(self, error: OttlaError) -> None:
        """This is a child process: the client belongs to its parent."""
        self._fork = error
        self._changed()

    def die(self, error: OttlaError) -> None:
        """The I/O thread has died."""
        self._crash = error
        self._changed()

    def close(self, error: OttlaError) -> None:
        """Somebody closes it."""
        self._closed = error
        self._changed()

    def _changed(self) -> None:
        """Nobody else has to be told."""
