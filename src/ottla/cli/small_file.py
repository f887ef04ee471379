"""Text files that options name and people write by hand: read whole, within a bound."""

from __future__ import annotations

from pathlib import Path

from ottla.errors import UserMistake

_BYTES_MAX = 1 << 20


def read_small_file(path: Path, option: str, takes: str) -> str:
    """The text of the file; UserMistake where it cannot be read, which says what the `option` `takes`."""
    try:
        with path.open("rb") as file:
            content = file.read(_BYTES_MAX + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise UserMistake(f"{path} cannot be read ({error.strerror}): check {option}") from None
    except UnicodeDecodeError:
        raise UserMistake(f"{path} is not UTF-8 text: {option} {takes}") from None
    if len(content) > _BYTES_MAX:
        raise UserMistake(f"{path} is longer than {_BYTES_MAX:,} bytes: {option} {takes}")
    return text
