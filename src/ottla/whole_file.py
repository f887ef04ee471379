"""Writes a file whole or not at all: beside its path first, then renamed, so that nobody ever reads half of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ottla.errors import UserMistake


def write_whole(path: Path, content: str, *, what: str, option: str) -> None:
    """Write `content` to `path`; UserMistake, naming `what` and the `option` that gave the path, where that fails."""
    with writing_whole(path, what=what, option=option) as partial:
        partial.write_text(content, encoding="utf-8")


@contextmanager
def writing_whole(path: Path, *, what: str, option: str) -> Iterator[Path]:
    """Gives the block a path to write to, and puts at `path` what stands there in the end; UserMistake as above.

    A block that ends with an exception leaves `path` as it was. Behind a link it is the file that is replaced.
    """
    target = _target(path)
    partial = _beside(target)
    try:
        is_stream = _is_stream(path)
        yield path if is_stream else partial
        if not is_stream:
            partial.replace(target)
    except OSError as error:
        if error.filename not in (None, str(partial), str(target), str(path)):
            raise  # it is another file, which the block could not read
        raise _refused(path, error, what, option) from None
    finally:
        with suppress(OSError):
            partial.unlink()


def check_path(path: Path, *, what: str, option: str) -> None:
    """UserMistake where `path` cannot be written, before the work for its content begins."""
    target = _target(path)
    try:
        if _is_stream(path):
            return
        if target.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        if not target.parent.is_dir():
            raise FileNotFoundError(0, f"there is no folder {target.parent}")
        partial = _beside(target)
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise _refused(path, error, what, option) from None


def _is_stream(path: Path) -> bool:
    """Whether it is a pipe or a device (/dev/stdout), which is written to: a file in its place would be a surprise.

    Asked of the path as it was given: what /dev/stdout leads to has no name of its own where that is a pipe.
    """
    return path.exists() and not path.is_file() and not path.is_dir()


def _target(path: Path) -> Path:
    # Unlike Path.resolve, this raises nothing where links go in circles.
    return Path(os.path.realpath(path))


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.partial")


def _refused(path: Path, error: OSError, what: str, option: str) -> UserMistake:
    # Arrow's own texts are long: the system's text for the number is used.
    why = os.strerror(error.errno) if error.errno else error.strerror or error
    return UserMistake(f"{what} cannot be written to {path} ({why}): give {option} another path")
