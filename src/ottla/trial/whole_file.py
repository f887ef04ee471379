"""Writes a file whole or not at all: beside its place first, then renamed, so that nobody ever reads half of it."""

from __future__ import annotations

import os
from pathlib import Path

from ottla.errors import UserMistake


def write_whole(path: Path, content: str, *, what: str, option: str) -> None:
    """Write `content` to `path`; UserMistake, naming `what` and the `option` that gave the place, where that fails."""
    target = path.resolve()
    partial = _beside(target)
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            # A pipe or a device (/dev/stdout) is written to; a file in its place would be somebody's surprise.
            target.write_text(content)
            return
        partial.write_text(content)
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise _refused(path, error, what, option) from None


def check_place(path: Path, *, what: str, option: str) -> None:
    """UserMistake where `path` could not be written, before hours went into what is to be written there."""
    target = path.resolve()
    try:
        if target.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        partial = _beside(target)
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise _refused(path, error, what, option) from None


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.partial")


def _refused(path: Path, error: OSError, what: str, option: str) -> UserMistake:
    return UserMistake(f"{what} cannot be written to {path} ({error.strerror}): give {option} another place")
