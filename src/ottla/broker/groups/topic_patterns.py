"""Topics named by a regular expression (KIP-848): what members may write, and which topics they mean.

A pattern matches a topic's whole name, internal topics included, as with Apache Kafka. Apache Kafka runs RE2, in time
that grows with the name's length alone; here Python's `re` runs, in which some patterns take for ever. Therefore what
RE2 does not know (looking around, references to what matched before) is refused, and so are long patterns, more than
four repeats, and repeats of something that itself repeats or has alternatives, as `(a+)+` and `(a|b)*`. The rest of
RE2's syntax is Python's, but for `\\pN` and `[[:alpha:]]`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from functools import lru_cache

_CHARACTERS_MAX = 256
# An escape, a set, a bracket that opens as RE2 lets it, any other bracket, a repeat.
_TOKENS = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[imsU-]*[:)]|\(\?P?<[A-Za-z_]\w*>|\(\??|\)|[*+{?|]", re.DOTALL
)
_REPEATS = ("*", "+", "{")
_REPEATS_MAX = 4


class PatternError(ValueError):
    """Why a pattern is refused."""


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> re.Pattern[str]:
    """The pattern; PatternError with what is wrong."""
    if len(text) > _CHARACTERS_MAX:
        raise PatternError(f"a pattern may have up to {_CHARACTERS_MAX} characters")
    _check_tokens(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(text)
    except (re.error, RecursionError, OverflowError, Warning) as error:
        raise PatternError(str(error)) from None


def matching(text: str, names: Iterable[str]) -> list[str]:
    """The names that the pattern matches as a whole; PatternError."""
    pattern = compile_pattern(text)
    return [name for name in names if pattern.fullmatch(name)]


def _check_tokens(text: str) -> None:
    """PatternError where it holds what RE2 does not know, or repeats what repeats."""
    # For each open bracket, whether what stands in it can match in several ways.
    several = [False]
    # Where what was just read ends, if it can.
    inner_end = -1
    repeats = 0
    for found in _TOKENS.finditer(text):
        token = found[0]
        if token == "(?":
            raise PatternError(f"{text[found.start() : found.start() + 4]!r} is not known to RE2")
        if token[0] == "\\" and token[1].isdigit():
            raise PatternError(f"{token!r} is not known to RE2: it refers to what matched before")
        if token in _REPEATS:
            repeats += 1
            if found.start() == inner_end:
                raise PatternError("a repeat of something that repeats or has alternatives may take for ever")
            if repeats > _REPEATS_MAX:
                raise PatternError(f"a pattern may have up to {_REPEATS_MAX} repeats")
            several[-1] = True
            inner_end = found.end()
        elif token in ("?", "|"):
            several[-1] = True
        elif token == ")" and len(several) > 1:
            inner = several.pop()
            several[-1] = several[-1] or inner
            inner_end = found.end() if inner else -1
        elif token[0] == "(" and token[-1] != ")":
            several.append(False)
