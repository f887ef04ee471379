"""The generator behind every simulated run: the same draws wherever it runs."""

from __future__ import annotations

from collections import Counter

import pytest

from ottla.simulation.chance import Chance

EXPECTED = [
    8494580198254383509,
    2,
    0.19436959852974112,
    "f",
    b"\xd9G\x86:\x8f",
    [5, 2, 8, 6, 4, 1, 0, 3, 7, 9],
    [27, 35, 17],
    0.8247184070967011,
]


def test_the_draws_are_the_same_on_every_machine_and_python() -> None:
    chance = Chance("a seed")
    drawn = [
        chance.getrandbits(64),
        chance.randint(1, 6),
        chance.random(),
        chance.choice("abcdef"),
        chance.randbytes(5),
    ]
    words = list(range(10))
    chance.shuffle(words)
    assert [*drawn, words, chance.sample(range(100), 3), chance.uniform(0.8, 1.2)] == EXPECTED


def test_a_fork_depends_on_its_name_and_takes_no_draw() -> None:
    one, other = Chance(1), Chance(1)
    assert one.fork("a").random() != one.fork("b").random()
    assert one.random() == other.random()


def test_every_face_of_a_die_comes_up_as_often() -> None:
    chance = Chance(3)
    thrown = Counter(chance.randint(1, 6) for _ in range(60_000))
    assert sorted(thrown) == [1, 2, 3, 4, 5, 6]
    assert all(9_500 < count < 10_500 for count in thrown.values())


def test_nothing_to_draw_from_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing to draw from"):
        Chance(1).randrange(0)
