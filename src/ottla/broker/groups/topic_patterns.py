"""Topics named by a regular expression (KIP-848): what members may write, and which topics they mean.

A pattern matches a topic's whole name, internal topics included, as with Apache Kafka. Apache Kafka runs RE2, in time
that grows with the name's length alone; here Python's `re` runs, in which some patterns take for ever. Therefore what
RE2 does not know (looking around, references to what matched before) is refused, and so are long patterns, more than
four repeats, repeats of something that itself repeats or has alternatives, as `(a+)+` and `(a|b)*`, and patterns that
can match in too many ways, as thirty times `a?`. The rest of RE2's syntax is Python's, but for `\\pN` and
`[[:alpha:]]`.
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
# In how many ways a pattern may match: what is optional counts twice, alternatives count each, and a repeat counts so.
_WAYS_MAX = 1 << 18
_WAYS_OF_REPEAT = 16


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
    # For each open bracket, whether what stands in it can match in several ways; in how many its last alternative can,
    # and those before.
    several = [False]
    ways, ways_before = [1], [0]
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
            ways[-1] *= _WAYS_OF_REPEAT
            inner_end = found.end()
        elif token == "?":
            several[-1] = True
            ways[-1] *= 2
        elif token == "|":
            several[-1] = True
            ways_before[-1] += ways[-1]
            ways[-1] = 1
        elif token == ")" and len(several) > 1:
            inner = several.pop()
            several[-1] = several[-1] or inner
            inner_ways = ways.pop() + ways_before.pop()
            ways[-1] *= inner_ways
            inner_end = found.end() if inner else -1
        elif token[0] == "(" and token[-1] != ")":
            several.append(False)
            ways.append(1)
            ways_before.append(0)
    # A bracket that is never closed is refused when the pattern is compiled.
    if ways[0] + ways_before[0] > _WAYS_MAX:
        raise PatternError("a pattern that can match in so many ways may take for ever")
