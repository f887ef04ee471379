"""Ctrl+C at the worst of moments: when a call of the system has just been carried out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def interrupted_after(call: Any) -> Iterator[None]:
    """Raise KeyboardInterrupt in this thread where `call`, a function in C, returns for the first time in the block."""

    def interrupt(_frame: FrameType, event: str, returned: Any) -> None:
        if event == "c_return" and returned is call:
            sys.setprofile(before)
            raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(interrupt)
    try:
        yield
    finally:
        sys.setprofile(before)
