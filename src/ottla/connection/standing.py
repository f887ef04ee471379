"""Whether a client can be used, and if not, why: its process forked, its I/O thread died, or it is closed.

Any thread that detects one of these reports it here. None of them is ever undone. If there are several, errors name the
first in this order.
"""

from __future__ import annotations

from ottla.errors import OttlaError, fresh


class Standing:
    """Why one client cannot be used any more, if so."""

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
        """Whether this is a child process of the one that made the client."""
        return self._fork is not None

    @property
    def crash(self) -> OttlaError | None:
        """Why the I/O thread died; None while it has not."""
        return self._crash

    @property
    def is_closed(self) -> bool:
        """Whether it was closed; it may still be delivering what was sent."""
        return self._closed is not None

    def check_usable(self) -> None:
        """Raise if it can never be used again."""
        why = self.why_over
        if why is not None:
            raise fresh(why)

    def check_process(self) -> None:
        """Raise in a child process of the one that made the client."""
        if self._fork is not None:
            raise fresh(self._fork)

    def fork(self, error: OttlaError) -> None:
        """Note that this is a child process: the client belongs to its parent."""
        self._fork = error
        self._changed()

    def die(self, error: OttlaError) -> None:
        """Note that the I/O thread has died."""
        self._crash = error
        self._changed()

    def close(self, error: OttlaError) -> None:
        """Note that the client is closed."""
        self._closed = error
        self._changed()

    def _changed(self) -> None:
        """Called after each change, for subclasses."""
