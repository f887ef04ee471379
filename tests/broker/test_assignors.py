"""What the server-side assignors give to whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.groups.assignors import ASSIGNORS, Candidate, Partitions, assign_ranges, assign_uniformly

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))


def places(topic_id: bytes, *indexes: int) -> Partitions:
    return {(topic_id, index): None for index in indexes}


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[Candidate], dict[bytes, int]]:
    """Members, and what they owned: some of it is gone, belongs to two, or is not wanted any more."""
    counts = {topic_id: draw(st.integers(1, 7)) for topic_id in (A, B, C)}
    place = st.tuples(st.sampled_from([A, B, C]), st.integers(0, 8))
    members = [
        Candidate(
            f"member-{number}",
            draw(st.lists(st.sampled_from([A, B, C]), unique=True)),
            dict.fromkeys(draw(st.lists(place, max_size=8))),
        )
        for number in range(draw(st.integers(0, 6)))
    ]
    return members, counts


@pytest.mark.parametrize("name", ASSIGNORS)
@given(groups())
def test_every_partition_that_somebody_wants_goes_to_one_who_wants_it(
    name: str, group: tuple[list[Candidate], dict[bytes, int]]
) -> None:
    members, counts = group
    assigned = ASSIGNORS[name](members, counts)
    assert list(assigned) == [member.member_id for member in members]
    given_out = sorted(place for each in assigned.values() for place in each)
    wanted = sorted({topic_id for member in members for topic_id in member.topic_ids})
    assert given_out == [(topic_id, index) for topic_id in wanted for index in range(counts[topic_id])]
    for member in members:
        assert all(topic_id in member.topic_ids for topic_id, _ in assigned[member.member_id])
    assert ASSIGNORS[name](members, counts) == assigned


@given(groups())
def test_uniform_leaves_no_two_members_that_could_be_made_more_alike(
    group: tuple[list[Candidate], dict[bytes, int]],
) -> None:
    members, counts = group
    assigned = assign_uniformly(members, counts)
    for giver in members:
        for taker in members:
            could = any(topic_id in taker.topic_ids for topic_id, _ in assigned[giver.member_id])
            assert not could or len(assigned[giver.member_id]) - len(assigned[taker.member_id]) <= 1


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 20))
def test_uniform_moves_as_few_partitions_as_it_takes(owned: list[int], more: int) -> None:
    members, start = [], 0
    for number, count in enumerate(owned):
        members.append(Candidate(f"member-{number}", [A], places(A, *range(start, start + count))))
        start += count
    share, extra = divmod(start + more, len(members))
    assigned = assign_uniformly(members, {A: start + more})
    assert sorted(map(len, assigned.values())) == [share] * (len(members) - extra) + [share + 1] * extra
    lost = sum(len(member.owned.keys() - assigned[member.member_id].keys()) for member in members)
    quotas = [share + 1] * extra + [share] * (len(members) - extra)
    assert lost == sum(max(0, had - quota) for had, quota in zip(sorted(owned, reverse=True), quotas, strict=True))


def test_uniform_balances_by_way_of_members_in_between() -> None:
    first, second = Candidate("first", [A], {}), Candidate("second", [A, B], places(A, 0))
    third = Candidate("third", [B], places(B, 0, 1))
    assigned = assign_uniformly([first, second, third], {A: 1, B: 2})
    assert [len(each) for each in assigned.values()] == [1, 1, 1]


def test_range_gives_neighbouring_partitions_and_the_same_of_like_topics() -> None:
    members = [Candidate(name, [A, B], {}) for name in ("first", "second", "third")]
    assigned = assign_ranges(members, {A: 4, B: 4})
    assert [*assigned["first"]] == [(A, 0), (A, 1), (B, 0), (B, 1)]
    assert [*assigned["second"]] == [(A, 2), (B, 2)]
    assert [*assigned["third"]] == [(A, 3), (B, 3)]
