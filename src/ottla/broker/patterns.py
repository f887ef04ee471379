"""Regular expressions from clients: which patterns are allowed, and what they match.

Groups subscribe to topics by them (KIP-848), transactions are listed by them (KIP-1152), and the metrics of clients
are subscribed to by them (KIP-714). A pattern matches a whole name, internal topics included, as with Apache Kafka.
Apache Kafka runs RE2, in time that grows with the name's length alone; here Python's `re` runs, in which some
patterns take for ever. Therefore what RE2 does not know (looking around, references to what matched before) is
refused, and so are long patterns, more than four repeats, repeats of something that itself repeats or has
alternatives, as `(a+)+` and `(a|b)*`, and patterns that can match in too many ways, as thirty times `a?` and
`.*a.*a.*a.*b`. What is allowed takes up to a fifth of a second for the longest name, and the usual patterns a few
microseconds. The rest of RE2's syntax is Python's, except `\\pN` and `[[:alpha:]]`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from functools import lru_cache

_CHARACTERS_MAX = 256
# Of what is matched: as many as a topic's name may have.
_MATCHED_CHARACTERS_MAX = 249
# An escape, a set, a bracket that opens as RE2 lets it, any other bracket, a repeat.
_TOKENS = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[imsU-]*[:)]|\(\?P?<[A-Za-z_]\w*>|\(\??|\)"
    r"|\{\d+\}|\{\d*,\d*\}|[*+{?|]",
    re.DOTALL,
)
_REPEATS = ("*", "+", "{")
_REPEATS_MAX = 4
# In how many ways a pattern may match: `?` doubles them, alternatives add up, a repeat multiplies by `_WAYS_OF_REPEAT`.
# Three repeats in a name of 249 characters have 2.6 million ways, 41 times what is counted; that is the worst case.
_WAYS_MAX = 1 << 18
_WAYS_OF_REPEAT = 40
# A repeat that the next character must end has one way; but each way of the part before it searches for that end.
_WAYS_OF_ENDED_REPEAT = 8
# A character behind a repeat, which is neither optional nor repeated from zero times on.
_NEXT_CHARACTER = re.compile(r"\??\)*(\\\W|[A-Za-z0-9_ -])(?![?*{])")
# A character that is spelt out, whose last digits look like characters of their own.
_SPELT_OUT = re.compile(r"\\[xuUN]")


class PatternError(ValueError):
    """Why a pattern is refused."""


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> re.Pattern[str]:
    """The pattern; PatternError with what is wrong."""
    if len(text) > _CHARACTERS_MAX:
        raise PatternError(f"a pattern may have up to {_CHARACTERS_MAX} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _check_tokens(text)
            return re.compile(text)
    except (re.error, RecursionError, OverflowError, Warning) as error:
        raise PatternError(str(error)) from None


def matches(pattern: re.Pattern[str], name: str) -> bool:
    """Whether the pattern matches the whole name; a name of over 249 characters never, as it may take too long."""
    return len(name) <= _MATCHED_CHARACTERS_MAX and pattern.fullmatch(name) is not None


def matching(text: str, names: Iterable[str]) -> list[str]:
    """The names that the pattern matches as a whole; none where it is refused.

    A member's pattern is checked when it comes, but the log may hold one from a broker that refused less.
    """
    try:
        pattern = compile_pattern(text)
    except PatternError:
        return []
    return [name for name in names if matches(pattern, name)]


def _check_tokens(text: str) -> None:
    """PatternError where it has what RE2 does not know, or repeats what repeats."""
    # For each open bracket: whether its content can match in several ways; in how many ways its last alternative can,
    # and all those before.
    several = [False]
    ways, ways_before = [1], [0]
    # Where what was just read ends, if it can.
    inner_end = -1
    repeats = 0
    before: re.Match[str] | None = None
    for found in _TOKENS.finditer(text):
        token = found[0]
        is_lazy = token == "?" and before is not None and before[0][0] in _REPEATS and before.end() == found.start()
        last, before = before, found
        if token == "(?":
            raise PatternError(f"{text[found.start() : found.start() + 4]!r} is not known to RE2")
        if token[0] == "\\" and token[1].isdigit():
            raise PatternError(f"{token!r} is not known to RE2: it refers to what matched before")
        if token[0] in _REPEATS:
            # Repeated `{3}` times, it matches in one way.
            is_open = not token[1:-1].isdigit()
            repeats += is_open
            if found.start() == inner_end:
                raise PatternError("a repeat of something that repeats or has alternatives may take for ever")
            if repeats > _REPEATS_MAX:
                raise PatternError(f"a pattern may have up to {_REPEATS_MAX} repeats")
            several[-1] = True
            ways[-1] *= _ways_of_repeat(text, found, last) if is_open else 1
            inner_end = found.end()
        elif token == "?" and not is_lazy:
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
        raise PatternError(
            "a pattern that can match in so many ways may take for ever: use fewer repeats, optional parts and "
            "alternatives"
        )


def _ways_of_repeat(text: str, repeat: re.Match[str], before: re.Match[str] | None) -> int:
    """In how many ways this repeat counts. `before` is the token in front of it."""
    start, end = repeat.span()
    if before is None or before.end() < start:
        repeated = re.escape(text[start - 1 : start])
        if text[start - 1 :] in (".*", ".+", ".*?", ".+?"):
            # It takes whatever is left of a name.
            return 1
        if text[start - 1] == ".":
            return _WAYS_OF_REPEAT
    elif before[0][0] in "\\[":
        repeated = before[0]
    else:
        return _WAYS_OF_REPEAT
    following = _NEXT_CHARACTER.match(text, end)
    if following is None or _SPELT_OUT.search(text):
        return _WAYS_OF_REPEAT
    try:
        can_go_on = re.match(repeated, following[1][-1], re.IGNORECASE)
    except (re.error, Warning):
        # The whole pattern is refused when it is compiled.
        return _WAYS_OF_REPEAT
    return _WAYS_OF_REPEAT if can_go_on else _WAYS_OF_ENDED_REPEAT
