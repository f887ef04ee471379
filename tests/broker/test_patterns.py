"""Patterns of topics (KIP-848): those that people write are taken, those that may take for ever are not."""

from __future__ import annotations

import pytest

from ottla.broker.patterns import PatternError, compile_pattern, matching


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("orders|payments|flights", ["orders"]),
        ("(dev|test|prod)-.*-orders-v?[0-9]+", ["dev-eu-orders-7"]),
        ("(?:dev|test)-.*?-orders-(v[0-9]*)?.*", ["dev-eu-orders-7"]),
        ("|".join(f"topic-{number}" for number in range(25)), ["topic-7"]),
        ("a?" * 18, ["a"]),
        ("dev-.*", ["dev-eu-orders-7"]),
        ("(dev|b)-.*-7", ["dev-eu-orders-7"]),
        (r".*\.orders\..*", []),
        # Each repeat ends where the next character is one that it cannot match: there is one way alone.
        ("[a-z]+-[a-z]+-[a-z]+-[0-9]+", ["dev-eu-orders-7"]),
        # The last one takes what is left.
        ("(dev|b)-.*-.*-.*", ["dev-eu-orders-7"]),
        ("([a-z]{3})-[a-z]{2}-[a-z]{6}-[0-9]{1,3}", ["dev-eu-orders-7"]),
        ("[a-z]{6}[0-9]{0,3}[a-z]*?.*", ["orders"]),
    ],
)
def test_patterns_that_people_write_are_taken(pattern: str, matched: list[str]) -> None:
    assert matching(pattern, ["orders", "dev-eu-orders-7", "topic-7", "a", "b"]) == matched


@pytest.mark.parametrize(
    "pattern",
    [
        "a?" * 30 + "a" * 30,
        "(a|aa)" * 20 + "b",
        "(?:a?a?a?a?a?a?a?a?){9}" + "a?" * 12,
        "(a?|(a?a?|a)(a?|a))" * 10,
        ".*" * 4 + "a?" * 4,
        # These took 18 seconds for a name of 249 characters, and less than one.
        ".*.*.*.*.?.?x",
        ".*a.*a.*a.*b",
        "a*a*a*a*b",
        "[a-z]*[a-z]{0,9}[a-z]+[a-z]{2,}[a-z]",
        # What looks like an end of each repeat is none.
        "[a-z]*-?[a-z]*-?[a-z]*(-|a)[a-z]*b",
        "(?i)[A-Z]*a[A-Z]*b[A-Z]*c[A-Z]*d",
        r"\x42*B\x42*B\x42*B\x42*B-",
        "(a*)?(a*|b)(a*)?(a*|b)-",
    ],
)
def test_patterns_that_match_in_too_many_ways_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="may take for ever"):
        compile_pattern(pattern)
